"""The beginning of a kernel that many tests share: where the work-item is in its workgroup."""

# %t is the work-item's number, x fastest; %n is how many there are.
PLACE = """
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %z = gpu.thread_id z
    %nx = gpu.block_dim x
    %ny = gpu.block_dim y
    %nz = gpu.block_dim z
    %nxy = arith.muli %nx, %ny : index
    %n = arith.muli %nxy, %nz : index
    %zy = arith.muli %z, %ny : index
    %row = arith.addi %zy, %y : index
    %start = arith.muli %row, %nx : index
    %t = arith.addi %start, %x : index"""
# %g is the work-item's number in a grid of one dimension.
PLACE_IN_GRID = (
    PLACE
    + """
    %bx = gpu.block_id x
    %base = arith.muli %bx, %n : index
    %g = arith.addi %base, %t : index"""
)
