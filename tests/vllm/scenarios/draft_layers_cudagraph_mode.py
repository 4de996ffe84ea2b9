"""The V2 model runner, built and initialised for real with a speculator: which cudagraph mode does the target get?

What a CPU has not is stood in for: streams, pinned memory, the weights (the layers are real) and the graphs themselves
(the metadata of each graph is built for real). The target's attention reports UNIFORM_BATCH, as AITER MLA does; the
draft's is TRITON_MLA, whose causal layers report UNIFORM_SINGLE_TOKEN_DECODE.
"""

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import vllm.config.vllm as vllm_configuration
import vllm.v1.worker.gpu.model_states.default as default_state
from vllm.config import (
    CacheConfig,
    CompilationMode,
    CUDAGraphMode,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
    set_current_vllm_config,
)
from vllm.distributed import parallel_state
from vllm.model_executor.layers.attention import mla_attention
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.mla.triton_mla import TritonMLABackend, TritonMLAMetadataBuilder
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.worker.gpu import buffer_utils, cudagraph_utils, model_runner
from vllm.v1.worker.gpu.spec_decode.dspark.speculator import DSparkSpeculator
from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator

IMAGES = ("v0.27.1",)

CPU = torch.device("cpu")
SCRATCH = tempfile.TemporaryDirectory()  # removed by the process that imports this, not by the forked ones
TARGET, DRAFT = "model.layers.{}.self_attn.attn", "model.layers.{}.draft.attn"
QUERY_LEN = 3  # two draft tokens and the one they follow

TEXT = {
    "torch_dtype": "bfloat16",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 64,
    "v_head_dim": 16,
    "max_position_embeddings": 256,
}
TARGET_MODEL = {**TEXT, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": None}
DSPARK_MODEL = {
    **TEXT,
    "architectures": ["Qwen3DSparkModel"],
    "model_type": "qwen3",
    "head_dim": 32,
    "mask_token_id": 1,
}


class UniformBuilder(TritonMLAMetadataBuilder):
    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH
    query_len_support = mla_attention.QueryLenSupport.UNIFORM


class UniformBackend(TritonMLABackend):
    @staticmethod
    def get_builder_cls() -> type[UniformBuilder]:
        return UniformBuilder


class Prefill:
    """The MLA prefill kernels, none of which a CPU has: the builders only keep and clone it."""

    def __init__(self, **_: Any) -> None: ...

    def clone(self) -> "Prefill":
        return self

    def prepare_metadata(self, _: Any) -> None: ...


class Model(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
        return torch.zeros(len(input_ids), 32), []


def no_gpu(*_: Any, **__: Any) -> None:
    return None


def stand_in_for_the_gpu() -> None:
    mla_attention.get_mla_prefill_backend = lambda _: Prefill
    vllm_configuration.HAS_TRITON = True  # the runner asks for it; no kernel is launched here
    torch.cuda.Stream = torch.cuda.Event = no_gpu
    torch.accelerator.empty_cache = torch.accelerator.synchronize = no_gpu
    torch.accelerator.get_memory_info = lambda: (0, 0)
    buffer_utils.UvaBuffer.__init__ = uva_buffer
    model_runner.DeviceMemoryProfiler = lambda: contextlib.nullcontext(type("Measured", (), {"consumed_memory": 0}))
    cudagraph_utils.current_platform.get_global_graph_pool = no_gpu
    cudagraph_utils.graph_capture = contextlib.nullcontext


def uva_buffer(buffer: Any, size: Any, dtype: torch.dtype) -> None:
    buffer.cpu = torch.zeros(size, dtype=dtype)
    buffer.np, buffer.uva = buffer.cpu.numpy(), buffer.cpu


def model_directory(config: dict[str, Any]) -> str:
    folder = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def config(method: str | None, mode: CUDAGraphMode = CUDAGraphMode.FULL_AND_PIECEWISE) -> VllmConfig:
    extra = {"num_nextn_predict_layers": 1} if method == "mtp" else {}
    folder = model_directory({**TARGET_MODEL, **extra})
    model = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=256)
    parallel = ParallelConfig()
    speculative = None
    if method:
        speculative = SpeculativeConfig(
            method=method,
            model={"dspark": model_directory(DSPARK_MODEL), "mtp": folder}.get(method),
            num_speculative_tokens=QUERY_LEN - 1,
            target_model_config=model,
            target_parallel_config=parallel,
        )
    made = VllmConfig(
        model_config=model,
        cache_config=CacheConfig(block_size=32),
        parallel_config=parallel,
        scheduler_config=SchedulerConfig(
            max_model_len=256, is_encoder_decoder=False, max_num_seqs=4, max_num_batched_tokens=64
        ),
        speculative_config=speculative,
    )
    # a CPU's platform turns graphs and compilation off
    made.compilation_config.mode = CompilationMode.VLLM_COMPILE
    made.compilation_config.splitting_ops = None
    made.compilation_config.set_splitting_ops_for_v1(all2all_backend="", data_parallel_size=1)
    made.compilation_config.cudagraph_mode = mode
    made.compilation_config.cudagraph_capture_sizes = [QUERY_LEN, 2 * QUERY_LEN]
    made.compilation_config.max_cudagraph_capture_size = 2 * QUERY_LEN
    return made


def layer(name: str, backend: type[TritonMLABackend], *, non_causal: bool = False) -> mla_attention.MLAAttention:
    return mla_attention.MLAAttention(
        num_heads=4,
        scale=1.0,
        qk_nope_head_dim=16,
        qk_rope_head_dim=64,
        v_head_dim=16,
        q_lora_rank=None,
        kv_lora_rank=512,
        kv_b_proj=torch.nn.Linear(512, 128),
        prefix=name,
        attn_backend=backend,
        non_causal_multi_token_decode=non_causal,
    )


def build(
    method: str | None = "dspark",
    target: tuple[type[TritonMLABackend], ...] = (UniformBackend,),
    draft: type[TritonMLABackend] = TritonMLABackend,
    non_causal: bool = False,
    mode: CUDAGraphMode = CUDAGraphMode.FULL_AND_PIECEWISE,
) -> model_runner.GPUModelRunner:
    stand_in_for_the_gpu()
    vllm_config = config(method, mode)

    class Loader:
        def load_model(self, **_: Any) -> Model:
            for index, backend in enumerate(target):
                layer(TARGET.format(index), backend)
            return Model()

    def load_draft_model(speculator: DraftModelSpeculator, *_: Any) -> Model:
        for index in range(2, 4):
            layer(DRAFT.format(index), draft, non_causal=non_causal)
        return Model()

    model_runner.get_model_loader = lambda _: Loader()
    model_runner.set_eagle3_aux_hidden_state_layers = no_gpu
    with set_current_vllm_config(vllm_config):
        parallel_state.init_distributed_environment(
            1, 0, f"file://{tempfile.mkdtemp(dir=SCRATCH.name)}/store", 0, "gloo"
        )
        parallel_state.initialize_model_parallel()
        runner = model_runner.GPUModelRunner(vllm_config, CPU)
        if runner.speculator:
            type(runner.speculator).load_draft_model = load_draft_model
        runner.load_model()
        [kv_cache_config] = get_kv_cache_configs(vllm_config, [runner.get_kv_cache_spec()], [1 << 22])
        runner.initialize_kv_cache(kv_cache_config)
    return runner


def decided(runner: model_runner.GPUModelRunner) -> dict[str, Any]:
    assert runner.cudagraph_manager is not None
    answer = {
        "target": runner.cudagraph_manager.cudagraph_mode.name,
        "target graphs": sorted(mode.name for mode in runner.cudagraph_manager._capture_descs),
        "groups": [[sorted(group.layer_names) for group in groups] for groups in runner.attn_groups],
    }
    if isinstance(runner.speculator, DSparkSpeculator):
        answer["draft"] = runner.speculator.query_cudagraph_manager.cudagraph_mode.name
    elif runner.speculator:
        answer["draft"] = runner.speculator.decode_cudagraph_manager.cudagraph_mode.name
    return answer


def observe_decision() -> Any:
    return decided(build())


def observe_only_full_asked_for() -> Any:
    return decided(build(mode=CUDAGraphMode.FULL))


def observe_no_draft() -> Any:
    return decided(build(method=None))


def observe_capable_draft() -> Any:
    return decided(build(draft=UniformBackend))


def observe_weak_target_layer() -> Any:
    return decided(build(target=(UniformBackend, TritonMLABackend), draft=UniformBackend))


def observe_weak_group_of_both() -> Any:
    return decided(build(target=(UniformBackend, TritonMLABackend)))


def observe_draft_that_runs_in_the_targets_mode() -> Any:
    return decided(build(method="mtp"))


def observe_metadata() -> Any:
    """[for capture?, layers] of all metadata that is built: for the target's graphs, and in a dummy step after that."""
    runner = build()
    assert runner.cudagraph_manager is not None
    built: list[list[Any]] = []
    build_attn_metadata = default_state.build_attn_metadata

    def record(**arguments: Any) -> dict[str, Any]:
        metadata = build_attn_metadata(**arguments)
        built.append([arguments["for_cudagraph_capture"], sorted(metadata)])
        return metadata

    default_state.build_attn_metadata = record

    def capture(manager: Any, create_forward_fn: Any, progress_bar_desc: str = "") -> None:
        for descs in manager._capture_descs.values():
            for desc in descs:
                create_forward_fn(desc, warmup=True)
        manager._graphs_captured = True

    cudagraph_utils.CudaGraphManager.capture = capture
    runner.cudagraph_manager.run_fullgraph = lambda desc: (torch.zeros(desc.num_tokens, 32), [])
    runner.capture_model()
    captured, built[:] = list(built), []
    output = SchedulerOutput.make_empty()
    output.total_num_scheduled_tokens = 2 * QUERY_LEN
    output.num_scheduled_tokens = {"a": QUERY_LEN, "b": QUERY_LEN}
    runner.execute_model(output, dummy_run=True)
    return {"captured": captured, "dummy": built}
