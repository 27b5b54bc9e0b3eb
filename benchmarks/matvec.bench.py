from runner.declare import Benchmark, Side, Target

SHAPES = ("2048x2048", "5632x2048", "2048x5632", "4096x4096", "11008x4096")


def over(name, key):
    """The better of a library's ways over ours."""
    return lambda numbers: min(value for found, value in numbers["2 threads"].items() if found.startswith(name) and found.endswith(key)) \
        / numbers["2 threads"][f"anyaccel_{key}"]


benchmark = Benchmark(
    title="Products of a row with an integer matrix",
    about="""Microseconds of one row times a matrix of int8 or int4 (outputs x inputs, as Llama's layers have them), 2 threads, a call for each product, through copies of
        the matrix that fill 128 MiB, so that weights come from memory. "anyaccel" is torch.ops.anyaccel.inference_linear with a scale for each 128 inputs, "libtorch"
        _weight_int4pack_mm_for_cpu (128, too) and _weight_int8pack_mm (a scale for each output) with rows of float32 and of bfloat16, "ggml" the mul_mat of llama.cpp's library with Q4_0 and
        Q8_0 (32), "repacked" as llama.cpp keeps Q4_0 on this processor. All sides by turns in one process, their results compared with plain float32 beforehand.
        A target takes the better of the library's two.""",
    sides=[Side("2 threads", ["{python}", "{here}/matvec.py", "0.5"], env={"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "2", "PYTHONPATH": "{build}/python"},
                needs=["{python}", "-c", "import llama_cpp"], ours=("anyaccel_",))],
    targets=[Target(f"int{bits}, {shape}: {words}'s time over ours", over(name, f"int{bits}_{shape}_us"), at_least=limit, unit="x")
             for bits in (4, 8) for shape in SHAPES for name, words, limit in (("libtorch", "LibTorch", 1.5), ("ggml", "llama.cpp", 1.0))])
