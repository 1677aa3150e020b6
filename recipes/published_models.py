"""The dimensions of published language models by name, with their sources."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from typing import Any, Literal

from hespas.recipes.language_models import DecoderModel, adjust_model
from hespas.support.suggestions import suggest_nearest

LlamaName = Literal[
    "tiny", "100m", "200m", "500m", "1b", "2b", "3b", "8b", "70b", "405b", "llama2-7b",
    "llama2-13b", "llama2-70b", "codellama-34b", "mistral-7b", "qwen2.5-32b", "qwen3-8b",
    "qwen3-14b", "qwen3-32b",
]  # fmt: skip
GptName = Literal[
    "tiny-gpt", "gpt3-126m", "gpt3-5b", "gpt3-7b", "gpt3-13b", "gpt3-22b", "gpt3-175b",
    "gpt3-530b", "mpt-125m", "mpt-350m", "mpt-760m", "mpt-1b", "mpt-3b", "mpt-7b", "mpt-13b",
    "mpt-30b", "mpt-70b",
]  # fmt: skip
BertName = Literal["tiny-bert", "bert-base", "bert-large"]
GemmaName = Literal[
    "tiny-gemma", "gemma-2b", "gemma-7b", "gemma2-2b", "gemma2-9b", "gemma2-27b", "gemma3-1b",
    "gemma3-4b", "gemma3-12b", "gemma3-27b",
]  # fmt: skip
MoeName = Literal[
    "tiny-moe", "tiny-deepseek", "mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b",
    "qwen3-235b-a22b", "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "kimi-k2",
]  # fmt: skip
T5Name = Literal["tiny-t5", "t5-v1.1-large", "t5-v1.1-xl", "t5-v1.1-xxl"]
GptOssName = Literal["tiny-gpt-oss", "gpt-oss-20b", "gpt-oss-120b"]
ExpertsName = Literal[MoeName, GptOssName]
ServedName = Literal[LlamaName, MoeName]
DecoderName = Literal[LlamaName, GptName, GemmaName, MoeName, GptOssName]

# The names of tables and papers for models that the recipes call otherwise.
ALIASES = {
    "llama3-8b": "8b", "llama3.1-8b": "8b", "llama3-70b": "70b", "llama3.1-70b": "70b",
    "llama3.3-70b": "70b", "llama3-405b": "405b", "llama3.1-405b": "405b",
    "deepseek-v2-16b": "deepseek-v2-lite", "deepseek-v2-236b": "deepseek-v2",
    "deepseek-v3-671b": "deepseek-v3", "kimi-k2-1t": "kimi-k2",
}  # fmt: skip


def suggest_model(name: str, known: Collection[str]) -> str:
    """Return a remedy that suggests the known model that a name stands for, else a similar one.

    Names of other tables differ in case, in punctuation, and by what precedes and follows them:
    ``meta-llama/Llama-3.1-8B-Instruct``.
    """
    spelled = {_reduce_name(word): word for word in known}
    spelled |= {_reduce_name(alias): word for alias, word in ALIASES.items() if word in known}
    reduced = _reduce_name(name)
    same = [word for word in spelled if len(word) > 2 and reduced.startswith(word)]
    if same:
        return f"did you mean '{spelled[max(same, key=len)]}'?"
    return suggest_nearest(name, list(known))


def _reduce_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().rpartition("/")[2])


def _make_scaling_model(emb: int, heads: int, layers: int) -> DecoderModel:
    """Make a model of the published workloads (arXiv 2604.12090), where mlp is 3.5 emb.

    The dimensions are read off the published modules; the heads are wider than emb together.
    """
    return DecoderModel(emb, heads, heads, 128, layers, emb * 7 // 2, 128256)


def _make_gpt_model(emb: int, heads: int, layers: int, vocab: int, **parts: Any) -> DecoderModel:
    """Make a model of the GPT family: layer norms, biases, learned positions, tied embeddings."""
    return DecoderModel(
        emb, heads, heads, emb // heads, layers, 4 * emb, vocab, norm="layer", biases=True,
        activation="gelu_tanh", gated=False, positions="learned", tied=True, **parts,
    )  # fmt: skip


def _make_mpt_model(emb: int, heads: int, layers: int) -> DecoderModel:
    """Make an MPT as llm-foundry's benchmarks train it: PyTorch's exact GELU, 50368 tokens."""
    return adjust_model(_make_gpt_model(emb, heads, layers, 50368), activation="gelu")


def _make_bert_model(emb: int, heads: int, layers: int, vocab: int = 30528) -> DecoderModel:
    """Make a BERT (arXiv 1810.04805, section 3); the vocabulary is padded to a multiple of 8."""
    return DecoderModel(
        emb, heads, heads, emb // heads, layers, 4 * emb, vocab, norm="layer", norm_eps=1e-12,
        biases=True, activation="gelu", gated=False, positions="learned", tied=True, causal=False,
        norms_after_sums=True, wide_scores=False,
    )  # fmt: skip


# T5 v1.1 (google-research/t5x, t5x/examples/t5/t5_1_1): the layers are those of each stack, scores
# are not scaled, and each stack has a table of biases by distance.
_make_t5 = functools.partial(
    DecoderModel, head_dim=64, vocab=32128, norm_eps=1e-6, activation="gelu_tanh",
    positions="relative", query_width=1, wide_scores=False,
)  # fmt: skip
# Gemma (arXiv 2403.08295): scaled embeddings, which the logits use too, and GeGLU.
_make_gemma = functools.partial(
    DecoderModel, vocab=256000, rope_theta=10_000.0, norm_eps=1e-6, norm_offset=1.0,
    activation="gelu_tanh", tied=True, scaled_embedding=True,
)  # fmt: skip
# Gemma 2 (arXiv 2408.00118): a window in every other layer, norms after blocks, squashed scores.
_make_gemma2 = functools.partial(
    _make_gemma, window=4096, global_every=2, post_norms=True, score_cap=50.0, logit_cap=30.0
)
# Gemma 3 (arXiv 2503.19786): five layers with a window for each without, norms of heads.
_make_gemma3 = functools.partial(
    _make_gemma, vocab=262144, window=1024, global_every=6, rope_theta=1_000_000.0,
    local_rope_theta=10_000.0, post_norms=True, head_norms=True,
)  # fmt: skip
# DeepSeek-V2 (arXiv 2405.04434): latent attention, experts after dense layers.
_make_deepseek = functools.partial(
    DecoderModel, vocab=102400, head_dim=192, rope_theta=10_000.0, norm_eps=1e-6, router="softmax",
    top_k=6, kv_rank=512, rope_dim=64, value_dim=128,
)  # fmt: skip
# gpt-oss (arXiv 2508.10925, section 2): a window in every other layer, sinks, biases;
# the limit of the gate is that of openai/gpt-oss.
_make_gpt_oss = functools.partial(
    DecoderModel, vocab=201088, head_dim=64, rope_theta=150_000.0, biases=True, window=128,
    global_every=2, sinks=True, activation="gelu_sigmoid", gate_limit=7.0, top_k=4,
)  # fmt: skip
# Qwen3 (arXiv 2505.09388, tables 1 and 2): norms of heads
_make_qwen3 = functools.partial(
    DecoderModel, head_dim=128, vocab=151936, rope_theta=1_000_000.0, norm_eps=1e-6, head_norms=True
)
# Qwen2.5 (arXiv 2412.15115, table 1; the rest by config.json of Qwen/Qwen2.5-32B): biases of
# queries, keys and values
_make_qwen2 = functools.partial(
    DecoderModel, head_dim=128, rope_theta=1_000_000.0, head_biases=True
)
_make_llama2 = functools.partial(DecoderModel, vocab=32000, rope_theta=10_000.0)

# fmt: off
MODELS = {
    "tiny": DecoderModel(64, 4, 2, 16, 2, 128, 256),  # for tests
    "tiny-gpt": _make_gpt_model(64, 4, 2, 256),
    "tiny-bert": _make_bert_model(64, 4, 2, 256),
    "tiny-t5": _make_t5(64, 4, 4, layers=2, mlp=128, vocab=256, head_dim=16),
    "tiny-gemma": _make_gemma2(
        64, 4, 2, 16, 2, 128, vocab=256, window=5, local_rope_theta=100.0, head_norms=True,
        query_width=20,
    ),
    "tiny-moe": DecoderModel(64, 4, 2, 16, 2, 128, 256, experts=8),
    "tiny-deepseek": _make_deepseek(
        64, 4, 4, layers=3, mlp=128, vocab=256, head_dim=24, experts=8, expert_mlp=32, rope_dim=8,
        value_dim=16, kv_rank=32, query_rank=48, shared_experts=2, dense_layers=1, top_k=3,
        expert_groups=4, top_groups=2,
    ),
    "tiny-gpt-oss": _make_gpt_oss(
        64, 4, 2, layers=4, mlp=64, vocab=256, head_dim=16, window=5, experts=8,
    ),
    "100m": _make_scaling_model(576, 9, 7),
    "200m": _make_scaling_model(832, 13, 10),
    "500m": _make_scaling_model(1280, 20, 16),
    "1b": _make_scaling_model(1792, 28, 22),
    "2b": _make_scaling_model(2240, 35, 28),
    "3b": _make_scaling_model(2624, 41, 32),
    # Llama 3 (arXiv 2407.21783, table 3)
    "8b": DecoderModel(4096, 32, 8, 128, 32, 14336, 128256),
    "70b": DecoderModel(8192, 64, 8, 128, 80, 28672, 128256),
    "405b": DecoderModel(16384, 128, 8, 128, 126, 53248, 128256),
    # Llama 2 (arXiv 2307.09288) and Code Llama (arXiv 2308.12950)
    "llama2-7b": _make_llama2(4096, 32, 32, 128, 32, 11008),
    "llama2-13b": _make_llama2(5120, 40, 40, 128, 40, 13824),
    "llama2-70b": _make_llama2(8192, 64, 8, 128, 80, 28672),
    "codellama-34b": _make_llama2(8192, 64, 8, 128, 48, 22016, rope_theta=1_000_000.0),
    # Mistral (arXiv 2310.06825, table 1); version 0.2 and later attend to all tokens
    "mistral-7b": DecoderModel(4096, 32, 8, 128, 32, 14336, 32000, rope_theta=1_000_000.0),
    "qwen2.5-32b": _make_qwen2(5120, 40, 8, layers=64, mlp=27648, vocab=152064),
    "qwen3-8b": _make_qwen3(4096, 32, 8, layers=36, mlp=12288),
    "qwen3-14b": _make_qwen3(5120, 40, 8, layers=40, mlp=17408),
    "qwen3-32b": _make_qwen3(5120, 64, 8, layers=64, mlp=25600),
    # GPT-3 (arXiv 2005.14165, table 2.1), and Megatron's sizes (arXiv 2205.05198, table 3). The
    # vocabulary is GPT-2's, padded as in these programs.
    "gpt3-126m": _make_gpt_model(768, 12, 12, 50304),
    "gpt3-5b": _make_gpt_model(4096, 32, 24, 51200),
    "gpt3-7b": _make_gpt_model(4096, 32, 32, 51200),
    "gpt3-13b": _make_gpt_model(5120, 40, 40, 51200),
    "gpt3-22b": _make_gpt_model(6144, 64, 48, 51200),
    "gpt3-175b": _make_gpt_model(12288, 96, 96, 51200),
    "gpt3-530b": _make_gpt_model(20480, 128, 105, 51200),
    # mosaicml/llm-foundry, scripts/train/benchmarking
    "mpt-125m": _make_mpt_model(768, 12, 12),
    "mpt-350m": _make_mpt_model(1024, 16, 24),
    "mpt-760m": _make_mpt_model(1536, 12, 24),
    "mpt-1b": _make_mpt_model(2048, 16, 24),
    "mpt-3b": _make_mpt_model(2560, 20, 32),
    "mpt-7b": _make_mpt_model(4096, 32, 32),
    "mpt-13b": _make_mpt_model(5120, 40, 40),
    "mpt-30b": _make_mpt_model(7168, 56, 48),
    "mpt-70b": _make_mpt_model(8192, 64, 80),
    "bert-base": _make_bert_model(768, 12, 12),
    "bert-large": _make_bert_model(1024, 16, 24),
    "t5-v1.1-large": _make_t5(1024, 16, 16, layers=24, mlp=2816),
    "t5-v1.1-xl": _make_t5(2048, 32, 32, layers=24, mlp=5120),
    "t5-v1.1-xxl": _make_t5(4096, 64, 64, layers=24, mlp=10240),
    # The reports of Gemma, table 1 each; query_width as in google-deepmind/gemma
    "gemma-2b": _make_gemma(2048, 8, 1, 256, 18, 16384),
    "gemma-7b": _make_gemma(3072, 16, 16, 256, 28, 24576),
    "gemma2-2b": _make_gemma2(2304, 8, 4, 256, 26, 9216),
    "gemma2-9b": _make_gemma2(3584, 16, 8, 256, 42, 14336),
    "gemma2-27b": _make_gemma2(4608, 32, 16, 128, 46, 36864, query_width=144),
    "gemma3-1b": _make_gemma3(1152, 4, 1, 256, 26, 6912, window=512),
    "gemma3-4b": _make_gemma3(2560, 8, 4, 256, 34, 10240),
    "gemma3-12b": _make_gemma3(3840, 16, 8, 256, 48, 15360),
    "gemma3-27b": _make_gemma3(5376, 32, 16, 128, 62, 21504, query_width=168),
    # Mixtral of experts (arXiv 2401.04088, table 1; mistralai/Mixtral-8x22B-v0.1)
    "mixtral-8x7b": DecoderModel(
        4096, 32, 8, 128, 32, 14336, 32000, rope_theta=1_000_000.0, experts=8
    ),
    "mixtral-8x22b": DecoderModel(
        6144, 48, 8, 128, 56, 16384, 32000, rope_theta=1_000_000.0, experts=8
    ),
    "gpt-oss-20b": _make_gpt_oss(2880, 64, 8, layers=24, mlp=2880, experts=32),
    "gpt-oss-120b": _make_gpt_oss(2880, 64, 8, layers=36, mlp=2880, experts=128),
    "qwen3-30b-a3b": _make_qwen3(
        2048, 32, 4, layers=48, mlp=6144, experts=128, top_k=8, expert_mlp=768
    ),
    "qwen3-235b-a22b": _make_qwen3(
        4096, 64, 4, layers=94, mlp=12288, experts=128, top_k=8, expert_mlp=1536
    ),
    # DeepSeek-V2 (arXiv 2405.04434, section 3.1.2 and appendix B) and V3 (arXiv 2412.19437,
    # section 4.2), without its additional prediction of tokens
    "deepseek-v2-lite": _make_deepseek(
        2048, 16, 16, layers=27, mlp=10944, experts=64, expert_mlp=1408, shared_experts=2,
        dense_layers=1,
    ),
    "deepseek-v2": _make_deepseek(
        5120, 128, 128, layers=60, mlp=12288, experts=160, expert_mlp=1536, shared_experts=2,
        dense_layers=1, query_rank=1536, expert_groups=8, top_groups=3, route_scale=16.0,
    ),
    "deepseek-v3": _make_deepseek(
        7168, 128, 128, layers=61, mlp=18432, vocab=129280, experts=256, top_k=8, expert_mlp=2048,
        shared_experts=1, dense_layers=3, query_rank=1536, router="sigmoid", expert_groups=8,
        top_groups=4, route_scale=2.5,
    ),
    # Kimi K2 (config.json of moonshotai/Kimi-K2-Instruct, whose architecture is DeepSeek-V3's)
    "kimi-k2": _make_deepseek(
        7168, 64, 64, layers=61, mlp=18432, vocab=163840, rope_theta=50_000.0, experts=384, top_k=8,
        expert_mlp=2048, shared_experts=1, dense_layers=1, query_rank=1536, router="sigmoid",
        route_scale=2.827,
    ),
}
# fmt: on


def make_decoder_model(name: str, **changes: Any) -> DecoderModel:
    """Return a model with some fields changed, except those that are None.

    Raises:
        UsageError: If the fields do not fit together.
    """
    return adjust_model(MODELS[name], **changes)
