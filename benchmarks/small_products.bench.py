from runner.declare import Benchmark, Side, Target

SIDE = "one thread"


def over(slower, faster):
    return lambda sides: sides[SIDE][f"{slower}_us"] / sides[SIDE][f"{faster}_us"]


benchmark = Benchmark(
    title="Small products and attention: one way in place of another",
    about="""Microseconds of the kernels for few rows and for attention, float32, one thread, each for the same shapes. The targets say why
        they are not one kernel. Products are of 1 to 48 rows with a weight of 768 x 768, through copies that fill 54 MiB, so that
        weights come from memory: "dots" (decoder/products_isa.h) and "skinny" (transformer/skinny_gemm_isa.h) with a weight [outputs][inputs], "panels"
        (decoder/panels_isa.h) with one that is packed beforehand, "turned" (transformer/transposed_rows_isa.h) and "skinny_turned" (the backward pass of
        skinny_gemm) with a weight [inputs][outputs]. "one_query" is attention over 1024 positions of 64 (decoder/attention_isa.h), and the same by panels
        (decoder/panel_attention.h); "biased" is attention of 256 queries and keys of 32 with a bias [query][key], by the Evoformer's kernel
        and by that of a transformer layer.""",
    sides=[Side(SIDE, ["{build}/bin/bench_small_products"])],
    targets=[
        Target("one row: skinny_gemm over the decoder's products", over("skinny_1", "dots_1"), at_least=1.5, unit="times"),
        Target("one row, weight [inputs][outputs]: skinny_gemm over transposed_rows", over("skinny_turned_1", "turned_1"),
               at_least=1.0, unit="times"),
        Target("one query: panels over attend_row", over("one_query_by_panels", "one_query"), at_least=2.0, unit="times"),
    ])
