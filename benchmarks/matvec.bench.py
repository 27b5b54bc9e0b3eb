from runner.declare import Benchmark, Side, Target

SHAPES = ("2048x2048", "5632x2048", "2048x5632", "4096x4096", "11008x4096")


def over(name, key):
    """Return the time of the library's fastest variant divided by AnyAccel's time."""
    return lambda numbers: min(value for found, value in numbers["2 threads"].items() if found.startswith(name) and found.endswith(key)) \
        / numbers["2 threads"][f"anyaccel_{key}"]


benchmark = Benchmark(
    title="Products of a row with an integer matrix",
    about="""Microseconds to multiply one row by an int8 or int4 matrix (outputs x inputs, in shapes
        of Llama's layers), with 2 threads and one call per product. The calls cycle through copies
        of the matrix that fill 128 MiB, so that the weights come from memory. "anyaccel" is
        torch.ops.anyaccel.inference_linear with a scale per 128 inputs. "libtorch" is
        _weight_int4pack_mm_for_cpu (also 128) and _weight_int8pack_mm (a scale per output), with
        float32 and bfloat16 rows. "ggml" is the mul_mat of llama.cpp's library with Q4_0 and Q8_0
        (a scale per 32 inputs), and "repacked" is the layout in which llama.cpp keeps Q4_0 on this
        processor. All libraries alternate in one process, and their results are compared with plain
        float32 beforehand. Targets use the faster of a library's two variants.""",
    sides=[Side("2 threads", ["{python}", "{here}/matvec.py", "0.5"], env={"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "2", "PYTHONPATH": "{build}/python"},
                needs=["{python}", "-c", "import llama_cpp"], ours=("anyaccel_",))],
    targets=[Target(f"int{bits}, {shape}: speedup over {words}", over(name, f"int{bits}_{shape}_us"), at_least=limit, unit="x")
             for bits in (4, 8) for shape in SHAPES for name, words, limit in (("libtorch", "LibTorch", 1.5), ("ggml", "llama.cpp", 1.0))])
