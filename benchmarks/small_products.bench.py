from runner.declare import Benchmark, Side, Target

SIDE = "one thread"


def over(slower, faster):
    return lambda sides: sides[SIDE][f"{slower}_us"] / sides[SIDE][f"{faster}_us"]


benchmark = Benchmark(
    title="Kernels for few rows and attention, compared with each other",
    about="""Microseconds of the kernels for products with few rows and for attention, in float32
        with one thread. The targets show why each of these kernels exists. Products have 1 to 48
        rows and a weight of 768 x 768. The calls cycle through copies of the weight that fill 54
        MiB, so that weights come from memory. With a weight [outputs][inputs]: "dots"
        (decoder/products_isa.h) and "skinny" (transformer/skinny_gemm_isa.h). With a packed weight:
        "panels" (decoder/panels_isa.h). With a weight [inputs][outputs]: "turned"
        (transformer/transposed_rows_isa.h) and "skinny_turned" (the backward pass of skinny_gemm).
        "one_query" is attention of one query over 1024 positions, with heads of dimension 64
        (decoder/attention_isa.h); "one_query_by_panels" is the same with panels
        (decoder/panel_attention.h). "biased" is attention of 256 queries and keys of dimension 32
        with a bias [query][key], by the Evoformer's kernel and by that of a transformer layer.""",
    sides=[Side(SIDE, ["{build}/bin/bench_small_products"])],
    targets=[
        Target("one row: skinny_gemm over the decoder's products", over("skinny_1", "dots_1"), at_least=1.5, unit="times"),
        Target("one row, weight [inputs][outputs]: skinny_gemm over transposed_rows", over("skinny_turned_1", "turned_1"),
               at_least=1.0, unit="times"),
        Target("one query: panels over attend_row", over("one_query_by_panels", "one_query"), at_least=2.0, unit="times"),
    ])
