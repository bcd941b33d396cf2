from gpubuild.engine.backends.cpu.kernel_facts import FunctionFacts, Tier, TierChoice, choose_tiers


def facts(name, waits="", calls=(), cluster=False):
    return FunctionFacts(name=name, waits=waits, calls=list(calls), cluster_barrier=cluster)


def test_wait_in_a_callee_of_a_callee_and_recursion():
    chosen = choose_tiers(
        [facts("a", calls=["b"]), facts("b", calls=["c", "b", "out"]), facts("c", "gpu.shuffle", ["a"])]
    )
    assert chosen["a"] == TierChoice(tier=Tier.FIBERS, reason="calls @c, which has gpu.shuffle")
    assert chosen["b"].tier is Tier.FIBERS


def test_cluster_barrier_is_inherited():
    chosen = choose_tiers([facts("a", "gpu.barrier", ["b"]), facts("b", "nvvm.cluster.wait", cluster=True)])
    assert chosen["a"].cluster_barrier


def test_fission_where_a_kernel_was_cut_else_the_reason():
    waiting = [facts("a", "gpu.barrier"), facts("b", "gpu.barrier"), facts("c")]
    chosen = choose_tiers(waiting, fissioned=["a"], refused={"b": "private memory"})
    assert chosen["a"] == TierChoice(tier=Tier.FISSION, reason="gpu.barrier")
    assert chosen["b"] == TierChoice(tier=Tier.FIBERS, reason="gpu.barrier; no fission: private memory")
    assert chosen["c"] == TierChoice(tier=Tier.LOOP)
