"""Host math: how this machine's C library rounds, as a tool: MLIR and LLVM fold constants with it.

``sin``, ``exp``, ``pow`` and the like are not correctly rounded, and glibc chooses between variants
for CPUs with and without fused multiply-add when a program starts. A folded constant can therefore
differ in its last bit between two CPUs, or between two versions of the C library. The fingerprint
covers the results of three thousand calls; machines that agree on all of them share keys.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild import environment
from gpubuild.environment import boot
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.toolchain.fingerprint import Tool
from gpubuild.toolchain.memo import Memo

if TYPE_CHECKING:
    import ctypes  # when needed: it takes 2 ms to load

NAME = "host-math"
_LIBRARY = "libm.so.6"
_BINARY = ("atan2", "pow")
# Exact in both formats, from 0 to 240, of both signs: other branches of the functions, and their NaNs.
_SPREAD = [(n % 7 - 3 + n / 64) * 2.0 ** (n % 12 - 6) for n in range(48)]


def host_math(memo: Memo) -> Tool:
    """The C library's mathematics as this process uses it. Raises ``OSError`` where there is none.

    The results are those of one start of the machine and one setting of the variables that choose
    another library or variant; the memo keeps them that long.
    """
    path = _loaded_library()
    if path is None:
        _load()
        path = _loaded_library()
    if path is None:
        fingerprint = probe()  # no /proc: then there is no name for this start of the machine either
    else:
        started = boot()
        seal = digest_bytes(encode((started, tuple(sorted(environment.host_math_variables().items())))))
        known = memo.fact(NAME, path)
        if started and isinstance(known, list) and known[:1] == [seal]:
            fingerprint = str(known[1])
        else:
            fingerprint = probe()
            memo.learn(NAME, path, [seal, fingerprint])
    return Tool(
        name=NAME,
        command=(str(path or _LIBRARY),),
        version=os.confstr("CS_GNU_LIBC_VERSION") or "",
        fingerprint=fingerprint,
        source="system",
    )


def probe() -> str:
    """One digest over the results of all functions for all points. Takes 2 ms. Raises ``OSError``."""
    from ctypes import c_double, c_float

    library = _load()
    total = hashlib.sha256()
    for code, kind, suffix, functions in (("d", c_double, "", DOUBLES), ("f", c_float, "f", SINGLES)):
        for name, points in functions.items():
            count = 2 if name in _BINARY else 1
            function = library[name + suffix]
            function.restype = kind
            function.argtypes = [kind] * count
            hard = struct.iter_unpack(f">{count}{code}", bytes.fromhex(points))
            spread = zip(*(_SPREAD[::step] for step in (1, -1)[:count]), strict=True)
            results = [function(*arguments) for arguments in (*hard, *spread)]
            total.update(struct.pack(f"<{len(results)}{code}", *results))
    return total.hexdigest()


def _load() -> ctypes.CDLL:
    """The functions as the libraries of MLIR and LLVM find them: what LD_PRELOAD names comes first."""
    import ctypes

    ctypes.CDLL(_LIBRARY, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(None)


def _loaded_library() -> Path | None:
    """The file of the C library's mathematics in this process."""
    try:
        with Path("/proc/self/maps").open(encoding="utf-8", errors="surrogateescape") as stream:
            paths = (Path(line.rstrip("\n").partition("/")[2]) for line in stream)
            return next((Path("/") / p for p in paths if p.name.startswith(("libm.so", "libm-2."))), None)
    except OSError:
        return None


# Arguments whose result lies almost halfway between two neighbours in the format, where
# implementations disagree first: within 2^-10 of the distance between neighbours for doubles, 2^-20
# for singles. Big-endian bit patterns, 16 per function, both arguments of one call side by side.
DOUBLES = {
    "acos": (
        "bfdae0ab3022b314bfd84f3305c2b790bfe2b6b59c8acb58bfe294c722b89f4ebfebae6a096cf73abfeb880b1dfc5af6"
        "3fedd809720f68603fe00a15a0cee6463fefbcd0f66096663feb6a0e682c18b6bfc7c73f525704e83fe828cb175974e6"
        "bfe25c1294df959ebfe441320bf7f8acbfefe519fe16d8d43fb804695291e5d0"
    ),
    "acosh": (
        "40202500416bad184020e9f8b7ad63904002d40527f9cb01403ba5a4085b8adf403a0e24879918b64014908e9b7d1d24"
        "4031b32e86684318402c1d5eec961bf0402bcf67896a898140310cd3ece98933403f43494a7e1a8b403e4bda0af2fd37"
        "4027bd88556ec81e403d0a1b8dc3bf354022ef0bb9fbf230403758a40cc1d0b9"
    ),
    "asin": (
        "3fcb0efbfb967db03fecdcdbdd3bb76c3fd0443523305e3cbfc56bcbfc8f33c8bfbbca90e69541f03fda69a81032853c"
        "3fec6c2cc85547ce3fd8249efcd0b8a03fdc3ce69f2e7fe0bfca38beff69fa48bfe9ba763368ddae3fe654e0b9813152"
        "3fe69e352fe07e34bfe8bd8c18fe75923fe262445385c048bfe591828dfaa894"
    ),
    "asinh": (
        "3ff36fe0a4761e60c04140b76a42735c401fca61cdf43468401fb8ddea564dc84040751c65302c08c01a789699e3c870"
        "c015c9e1ebf9ff70403a5b0d6948773cc03d253e718aae7fc01f6e0861cce9704040cacb32b37284402b94374b239d08"
        "4037e7e5f8978e624030bbd788d3f24cc03de66f61d75b48c01c4675eb531a70"
    ),
    "atan": (
        "403147329a034ecac040f2518950fbcfc028031534ec6720c03f5776e2d1a8d040349f73445f1c74c03bba97366148d8"
        "3fde39042bf16180c02c4faad4417d98401f8b8b41d6edf8c031a40d2fc6372ec03e744f8f1caff2403ceb4ecdef8db0"
        "400369d9545e3f40c028b1b86779f8943fee61249fdab4004020c89d3868bd68"
    ),
    "atan2": (
        "4031fd9e969f85cac0218ff4ec33eb163fe5a7d9bb61ed60c0079a1114ce90f0c033d3429999f61a40311ae0dd6dd3fc"
        "3ff235e5d47b42f0c0322fbf83ba296a3fe456e78b4f7620400dc557e82ab650c0159160b634649ac012a364c7830f44"
        "c031a27de80ebffc4024e80dfec27b6ac010d4dae115d6184033f3bb093c312c402c277c975b9030c01fde76add0d0aa"
        "4032379aa03b37a6c02bca67d343160ac0235a2a89bad5084032a785cd923b86c026103d9bdbcc3cbfdd940584a25900"
        "c02c0024e017d134bff704291c792230c0192e07ced8cc5cc0252728b3f77446c024836abbe50d5e402b198a249ef8c8"
        "c02ca785e8515bd5bfe5392b199af340"
    ),
    "atanh": (
        "3febd72ba6d6e5cabfeb2246e39c39783fdd8fc9c4f6f2403fd519e90772e9fc3fd1e35e74db55683fe4b8b229846c92"
        "bfcf8bc79b80bda0bfee4064f471b44ebfe17e886bc2edf4bfd9830506005b20bfd0fabc458f5278bfba3c57b493b690"
        "3fd597d2e4dd2b60bfefffd7d240bd123fd15427e7591b3c3fe0a8172b44a4a2"
    ),
    "cos": (
        "c014b00e22b159a84041e741a7ca2b04c03f34e04d187f944041507200726128c040dd5d2274a21c40361172805c2edc"
        "403950a0137dab4cc01813f8b648d8184037bed7b3a7e710c031eb47adfd0407403c0f2cd1070ec840351d5784045dc2"
        "4001f1782f9c62c0c041c8cfb5c5d29ec0347d7cf22ec170c0229291cde93776"
    ),
    "cosh": (
        "401596f22d5c6284bffcfc1a6c03da60c02f019a089e6129c0068a98a8f797a0401d6b15f0029e444022280fb815fca4"
        "4027388d238f46d2c02ee7e6ea7463b6c02d5f9e50583fd94028addb6f602748c005d439a488ad28c018ef8dba962f54"
        "40285113cc77b2cc3fce307d5e34d880402ae81b75ab599c4022869816a972b2"
    ),
    "erf": (
        "c0027fb220f7e54cbffba4baa8c716e9c0013a075081970e4001dd16963e4d6abfeb47b7276ac000bffb2fd44711b3f5"
        "3ff81f1c66f6dfa4bfba2c39a6c24780bfe4ddb6efd320283ffcac14b4d06844bfe5aab017488350bff445d2f5f16bfb"
        "bfed460a3f07a1483ffaad2bc95753543fdd8ce0a844e9103ffadf0bf0988c68"
    ),
    "erfc": (
        "401d8ee556fa9562400b04df99fa5a92401214c75f57c9614014a5689cc8d168c00747ad240b7c8f400eb613cc981808"
        "400556aac73a74544013d6044d5ce3c3400fc63ca38cd1284012901f36bba9c440130002926757ed401d6a4347ee96b4"
        "c00617ce15cdf350401820c2cdbc00a240146d42d0b6cc76401f79dc2205d958"
    ),
    "exp": (
        "400b147f6fa97f90c011aff7247911684023923e5b57d2704029b2b4b476b5d4c02b342fb15a0abc403d5a4fdaabfca8"
        "c042a6421c91e477c0338835751edd9fc03163991ad83e93401933586e20e4f04029b0dcd067aa184039ae2d2ad1fcb0"
        "403d90834522ec104036e2b8aedd37ccc0280b166b573a98bff915348b4b8b20"
    ),
    "exp2": (
        "c01cba319b57b2504033d22f45793aac401cf90d692eb0a0c02d584f27175ad04038ca01f9597f8840333a8c110efc80"
        "4041704afff44378c037fd8c2e7cd440404338bfcbaf8d3ac02dc5ed917e4650403fa9795638d268bfee1047664b9240"
        "c0431156b9ea8d57c02f838bab530b30c00bea1fd96913b0404227dd85fd02ce"
    ),
    "expm1": (
        "c018ff7db79e15e4c006843f8af1391840328b81c3311a6ac02350147b9076f8c02ced537bc9b2c0c033ecf5c62c97df"
        "c014c02491447d143ffaaff7c96b840040229e2d026ec318c00fde6fc832e51040111c2337456890402a799a73d536c4"
        "c0247389d29aa90f3ff35946cb9c2320c029a666d6f488d54023bd9e648609ba"
    ),
    "log": (
        "4033dd60823bda4940421731c2fc84684041984f2d1b25e74043c94d4c598da140347129eb18c84e4043ce48da562269"
        "402cc0eaa7e05fa040429d340a499ff83feaaa27256b256840367c6cad700e154016c5c2b3a08ab94019ece80bfdc4fc"
        "40338347b67ba9874043f38928907d0440253aa96d80afa2403fb1c4a38afcc4"
    ),
    "log10": (
        "402d2a10940440ed40315043e60a67a0403ee3520975971440382eaffb3449fd4027ade164a5d894403f2fab774ca5a4"
        "4000d5aa1c5e84024017e33a5b2c40624040488ac259eb72403046d502ae3ae0401826375cee9b2b4018cd69aec6f72f"
        "40105a2434e2cbca4042874f7dd9c10c4034cd65a04acd374028c0a827bef18a"
    ),
    "log1p": (
        "4012ff8a530c9825402dc090c74113c44043ef7a9964f2cd4038f929304997a54036877cbfa988d43fea46813767634e"
        "403ba8b70f4251e540416a634442d04d403ee8e65ce5bab54030a1f4077cd2254021ea8150bdc051403873ef1a306362"
        "403bdb2491e9be45403e4b5907240e7f401fa417a0ed1c764013f0ada4d37db0"
    ),
    "log2": (
        "403ed1c3029021f7404155e37ee680b44036eb76d866710a40420351dd4eb9fe404089a4e82513e1403efd81adccf5d9"
        "403d699ce2f52c3d400fdf33e7445ee8402e71019625430e4030f9f723fdebdc40404b00ee146c1540304f87e1abd354"
        "40422f0bbca0b188400d3b034b1cc7de4012848959596897401d1b312cffba69"
    ),
    "pow": (
        "402d4454bec36e1abff839b0a64cc818401257b322557ff8c0115f5d579491fa3ffa3c77885cf08ebff2d3eaede4b6f8"
        "4021997ae8c5658e4018617d48a65c8c401491b70b8300ebbfe88898a1e5c5b03fe1d4d60f4cfe70bff9ed1700461d08"
        "402b4a72458c2bd84003740f74da42f8403209d8a81d9fa7c01dd73a2d7cdfd03ff00af5ffdd5472bffde5789f79aa00"
        "400684954259516a4011853ebfa631fc4023d27cc4bc0a00400a8284ec5cf33c40321e4b83330c584019301da534ab6c"
        "402fb0d38f576e0440239982bf1f573c40266afdbd0635fac01e820802dad88640102573f8ababfabfda4db05889abc0"
        "402018ac184b6c1f40158c4c0d4f9ee8"
    ),
    "sin": (
        "403504a9fc29d4f4c0023042192e8030c02ba1e6f37297c2c033e10053bc616c403e09065d302ec0bff544ff7d73cde0"
        "402f009b5f3e7fc0c0316fee846de98c40112919ab550d88c017a99c165a3120c0174363568e6550402a193640ac99ac"
        "c03f75ec0a3aa84ec04180b62e032f8040351e6e1adac2fcc030ccb70d9a42f4"
    ),
    "sinh": (
        "c01b81542f5a6e9e4027b00fb74a1384c0305d6b199f545040281da06e60f154c0144468877da76ac028732b54475fc8"
        "4033756e3dadf9624032969067135320bfdc06e758735480c000399340df2250c0239914388c75f0c02befaf49be740c"
        "c023fbafac27adddc0306f1451ff124f4020f785031198d2401c89a1dafc5cd8"
    ),
    "tan": (
        "c0205d6603bbdaec4026b1fa8aec1484c01da624ab92ee90403c59318bb9e428403a27b4335c58944031a19031ad4a22"
        "4007519903bc8560c038fcf3f1bfbcf1c03bb97e8d1f2b89c03ca4816a9dcababfd0cf0a89982100bff497280ad57e00"
        "c040a65bc12ca2e2c02935e513ebe1b8403e1cbabf6be68840421a6a8f934438"
    ),
    "tanh": (
        "c01fe668ae6533a0bffc86b9411945304015cbb2c48a9280c01803737f47d2b6401acd1b7d88e35ec01b68285a99ef6e"
        "40135ada5e01b042401e9c74c4e1107040045ed0a1332ebc401ae5b3dbdf642840101a589ca41cc6c0168dfde264de0e"
        "4014636580560d5e3ffb04de44f705183fdf51eb6ae3f9203fe5f7b2c341bb40"
    ),
}
SINGLES = {
    "acos": (
        "bf6f90dabea24de7bf54fc8e3e8303873d138af8bf0063303ea5ef863e16d4493cb0658bbe8ee52f3f483b60bf7b90d4"
        "bd2c31fdbe75ceee3f0d90f3bcc87618"
    ),
    "acosh": (
        "4094247a41fc3f4d412257d241763a5841b5b653412cac79420b6dc941a0290a420b6dc94202300e409ac12941dd4d45"
        "41d889a24123a3414217688241ddd6b0"
    ),
    "asin": (
        "beb163e5bf4d61b13db41a173f083a1abe631d0e3e38f18b3cb1d4903f255f613f74a5333d2f4a7a3f2c31f53f4d61b1"
        "3e5dfb863edb4dcb3e5dfb863ece9f0d"
    ),
    "asinh": (
        "c1fcd2fcc10c3a17421baf39420d33e2420b4817c10ddcd2c15765cfc20b48174206443e415dbd30410ddcd241b03450"
        "42044593c2044593420b48173f9af97a"
    ),
    "atan": (
        "c181fe6e41c500bb3f1155e44187734841877348c142cd32bd816cbdc1e4e415407419fdc19b7bd64187d3d63fb393dd"
        "c101f2384139f59a4180af38c1d3ed76"
    ),
    "atan2": (
        "403ab491c0ed03214015709cc0ee2141c19de65440879ce23f95bac9402f8276c1114cb0c15696b8401bf649c17f5f83"
        "c14b22f2c14a012cc0b30f9041803141413511c5c13601504097d388c195216540479f1740e39a7c417f520d416f7708"
        "c0ada2de4028e09dc15ee2c640fd799cc126f8bf415da92bc0ab7c7540c1fe34"
    ),
    "atanh": (
        "3ee6651d3f77a8973f21f4febf540831be5245f1bed175af3be41cbb3f0f78d33f43c428bf0f78d3bedcf9fabf26cc8b"
        "be7a82553f550894be58475ebf4af974"
    ),
    "cos": (
        "c207159bc179e3a4c1a7eeaec171a067c1946710c200917a4136e173c113751c3ec9e2cdc207159b415599864215bfe0"
        "c1414e7441c0b3214207159b4137de9a"
    ),
    "cosh": (
        "40c03636c0d6af1bc13b3b88c178966ebf157258c0abcda2c0807a3dc113bc4141411e93c111c11b4190232340ba1ac4"
        "c178966ebf13ceb3419957484180f15e"
    ),
    "erf": (
        "3d5200bb3e1cd895bfde4ac1c0321c83bffafaa7bef469cb40307659403076594010f7c9402cf4acbf9633a2c02b05f5"
        "3ec1eac9402b05f5c03076593fe46451"
    ),
    "erfc": (
        "403bd9e740579b5f3ee68d40408a949bbf2fd5103ec153a940579b5f40a11a0940b9ee18c02a07cd3fe7573f40dc4643"
        "3eb74ed840b9ee18407a5862407a5862"
    ),
    "exp": (
        "c21def5ec0958582415db85542183571c203dd5ec13f521d41e9084a40c8a198c09585824119f63941bb293ec0c7f75b"
        "c203dd5ec1963bdb40a8114ac1a19d57"
    ),
    "exp2": (
        "c1e996c7c18996c7c21d8fc541966939c1e996c74119c0ecc1132d8e421e703bc1a996c7420e703bc2198fc54184e076"
        "40d9a4e441fce07640f9a4e4c2158fc5"
    ),
    "expm1": (
        "418c391f414c47ce4178966e4119f6393fa79ee2be4b6782409bc65abe38cabd418c391f4119f63940803ef93cbc3c2a"
        "4193299a4193299a4001b249c132d967"
    ),
    "log": (
        "4164a1ef40c553bf41ab03834200e07742086d6c41d2cd3342086d6c41199c724074288f41e3b2af41ec25a641e3b2af"
        "41f7a1f4419dabe141e3b2af42138ace"
    ),
    "log10": (
        "418ec43941ccf680418ec4393f4d529440d8c563412b31e241cf421841ec876341b31cd8400f2e2e41a7064b41b976f6"
        "42186fa941ec87633faaf44441094689"
    ),
    "log1p": (
        "421fdd58414453a841a3038341078feb41cacd3342046d6c414453a84124084b4004dbcb421fdd584175f97141cacd33"
        "41f9c0ee41643406421fdd5841b0c3c7"
    ),
    "log2": (
        "41e3c219415915c141b4870f41b3345541700a244193f27741a8677c41bc521c408d27024213f2774113eb97413f64f8"
        "4113eb9741a1b91e4049b40e40de248e"
    ),
    "pow": (
        "4163bb7ac03a564d41418fd2c0f76812419f9147c0987ae0410a05d7400ca51b418c0a23405fba8641467510c0afeaff"
        "4195b8b3c11be764416612f9411e91e04190661840ed4ec1411346e54103f20e40b8606fbfb0137740fe0fbd403dec40"
        "413b39984047918d415a2593c0a297013f9288264047afd0417afebfc119a474"
    ),
    "sin": (
        "c10cf969c1c324f24090191dc1b2121141b21211c1e25057c1d0d4f4c204f41a417b379ec01b3c8841ed1855c1c324f2"
        "42195dbac20bb043c05f771041e25057"
    ),
    "sinh": (
        "40b93aa1c08b5aa94180f15ec199574840eefc1f41902323c180f15e411a649fc1704429415ce4a6c19957483f99144c"
        "c0d53913c180f15e40bb6443c1995748"
    ),
    "tan": (
        "c218e3d9c0ac25f3c21d7c40c17eaf70420eeb2541ae89b5420ca4fec1f38e194111d20b410acd0d420ca4fec2107fc6"
        "4218e3d9c1d7083bc1de6e0841ae89b5"
    ),
    "tanh": (
        "40b799ba4012afe83f97fbc7c074dff7c048c2e24015fef340c7b05fbef5b46040c7b05fc0499307c0c7b05fc0499307"
        "c012296540a9a11040acb4d04041e562"
    ),
}
