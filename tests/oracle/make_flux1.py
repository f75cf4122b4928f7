"""Writes small random FLUX.1 checkpoints with diffusers, and their outputs on fixed inputs.

    make_flux1.py --out DIR [options]    one checkpoint
    make_flux1.py --suite DIR            a fixed list of checkpoints, each in its own folder under DIR

Each folder holds what `FluxTransformer2DModel.save_pretrained` writes (`config.json` and fp32 safetensors, or shards and an
index) and `oracle.safetensors`. Shape letters: B batch, S image tokens, T text tokens, C in_channels, J joint_attention_dim,
P pooled_projection_dim, K denoising steps.

    inputs, fp32   hidden_states [B,S,C]  encoder_hidden_states [B,T,J]  pooled_projections [B,P]  timestep [B] (in [0,1])
                   guidance [B] (models with guidance only)  img_ids [S,3]  txt_ids [T,3]
    outputs        output_fp32        [B,S,C] fp32   plain diffusers
                   output_fp64_casts  [B,S,C] fp64   model.double(), diffusers' own float32 casts left in
                   output_fp64        [B,S,C] fp64   no float32 anywhere (fp64_lift.py)
    schedules      sigmas_fp64 [K+1] fp64, sigmas_diffusers [K+1] fp32 for K = --steps; with the suffix _steps1 and _steps4
                   the same for K = 1 and K = 4
    latents        latents_fp64_steps1, latents_fp64_steps4 [B,S,C] fp64   the Euler loop with the model of output_fp64, from
                   hidden_states, over sigmas_fp64_steps1 / _steps4; the model's timestep is the fp64 sigma itself

fp64 runs start from the stored fp32 inputs, upcast, so every run starts from the same numbers.
Bad arguments: one line, exit status 2.
"""

import argparse
import dataclasses
import math
import platform
import re
import shlex
import sys
from pathlib import Path

import numpy as np

THREADS = 1  # fixed, as the last bits of fp32 results depend on it; models this small gain nothing from more
LOOP_STEPS = (1, 4)


@dataclasses.dataclass(frozen=True)
class Case:
    """One checkpoint and one request; every field is a command line option of the same name."""

    heads: int = 4
    head_dim: int = 12
    layers: int = 2
    single_layers: int = 2
    joint_dim: int = 32
    pooled_dim: int = 24
    in_channels: int = 16
    axes: tuple = (4, 4, 4)
    no_guidance: bool = False
    batch: int = 1
    height_patches: int = 6
    width_patches: int = 8
    text_tokens: int = 24
    text_ids_distinct: bool = False
    steps: int = 28
    seed: int = 0
    max_shard_size: str = "10GB"

    def arguments(self):
        """The options that make this case, as one string; defaults are left out."""
        words = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            words.append("--" + field.name.replace("_", "-"))
            if isinstance(value, tuple):
                words.append(",".join(map(str, value)))
            elif value is not True:
                words.append(str(value))
        return shlex.join(words)


SUITE = {
    "h48-d1-s1": Case(layers=1, single_layers=1, seed=11),
    "h48-noguidance": Case(no_guidance=True, text_ids_distinct=True, seed=12),
    "h48-heads3-odd": Case(heads=3, head_dim=16, axes=(4, 6, 6), height_patches=5, width_patches=7, text_tokens=11,
                           text_ids_distinct=True, seed=13),
    "h64-batch2": Case(heads=4, head_dim=16, axes=(4, 6, 6), batch=2, layers=2, single_layers=3, joint_dim=40,
                       pooled_dim=20, text_ids_distinct=True, seed=14),
    "h96-d4-s4": Case(heads=6, head_dim=16, axes=(8, 4, 4), layers=4, single_layers=4, in_channels=32, seed=15),
    "h128-sharded": Case(heads=8, head_dim=16, axes=(4, 6, 6), layers=2, single_layers=2, joint_dim=48,
                         text_ids_distinct=True, max_shard_size="700KB", seed=16),
    "h192-d1-s3-noguidance": Case(heads=8, head_dim=24, axes=(4, 10, 10), layers=1, single_layers=3, no_guidance=True,
                                  batch=3, height_patches=8, width_patches=12, text_tokens=48, seed=17),
    "h256-d3-s1": Case(heads=4, head_dim=64, axes=(8, 28, 28), layers=3, single_layers=1, joint_dim=96, pooled_dim=64,
                       in_channels=64, height_patches=8, width_patches=8, text_tokens=32, text_ids_distinct=True,
                       seed=18),
    "h384-heads24": Case(heads=24, head_dim=16, axes=(4, 6, 6), layers=1, single_layers=2, joint_dim=64,
                         pooled_dim=48, in_channels=64, seed=19),
    "h512-flux-axes": Case(heads=4, head_dim=128, axes=(16, 56, 56), layers=1, single_layers=1, joint_dim=128,
                           pooled_dim=96, in_channels=64, height_patches=16, width_patches=16, text_tokens=64,
                           text_ids_distinct=True, seed=20),
}


# ---------------------------------------------------------------------------------------------------- weights and inputs


def random_fp32(rng, shape, mean=0.0, std=1.0):
    """A normal fp32 tensor. numpy draws it: torch's CPU generator gives other bits on CPUs with other vector units."""
    import torch

    return torch.from_numpy((mean + std * rng.standard_normal(shape)).astype(np.float32))


def randomise(model, rng):
    """Overwrites every parameter, so that each path of the model moves its output.

    diffusers' own init leaves the norm weights at 1 and biases and AdaLN modulations small: a swapped bias or a gate that is
    dropped would hardly show. Weights get std 1/sqrt(fan_in), which keeps activations near 1.
    """
    import torch

    with torch.no_grad():
        for name, layer in model.named_modules():
            own = dict(layer.named_parameters(recurse=False))
            if not own:
                continue
            if isinstance(layer, torch.nn.Linear):
                layer.weight.copy_(random_fp32(rng, layer.weight.shape, std=layer.in_features**-0.5))
                layer.bias.copy_(random_fp32(rng, layer.bias.shape, std=0.2))
            elif isinstance(layer, torch.nn.RMSNorm):
                layer.weight.copy_(random_fp32(rng, layer.weight.shape, mean=1.0, std=0.2))
            else:
                raise RuntimeError(f"[flux1] no rule for the parameters {sorted(own)} of {name} ({type(layer).__name__})")


def make_model(case, rng):
    """A FluxTransformer2DModel in fp32 with random weights."""
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=case.in_channels,
        num_layers=case.layers,
        num_single_layers=case.single_layers,
        attention_head_dim=case.head_dim,
        num_attention_heads=case.heads,
        joint_attention_dim=case.joint_dim,
        pooled_projection_dim=case.pooled_dim,
        guidance_embeds=not case.no_guidance,
        axes_dims_rope=case.axes,
    )
    randomise(model, rng)
    return model.eval()


def image_ids(height, width):
    """[S,3]: (0, row, column), rows first, as FLUX numbers its image patches."""
    import torch

    return torch.tensor([[0, row, column] for row in range(height) for column in range(width)], dtype=torch.float32)


def text_ids(tokens, distinct):
    """[T,3]: zeros as in FLUX, or all different and not 0, so that a text id which is lost or misplaced shows."""
    import torch

    if not distinct:
        return torch.zeros(tokens, 3)
    return torch.tensor([[t + 1, 2 * t + 3, 3 * t + 2] for t in range(tokens)], dtype=torch.float32)


def make_inputs(case, rng):
    """The model's inputs by name, fp32. Timestep and guidance differ from one batch item to the next."""
    import torch

    image_tokens = case.height_patches * case.width_patches
    inputs = {
        "hidden_states": random_fp32(rng, (case.batch, image_tokens, case.in_channels)),
        "encoder_hidden_states": random_fp32(rng, (case.batch, case.text_tokens, case.joint_dim)),
        "pooled_projections": random_fp32(rng, (case.batch, case.pooled_dim)),
        "timestep": torch.from_numpy(rng.uniform(0.05, 0.95, case.batch).astype(np.float32)),
        "img_ids": image_ids(case.height_patches, case.width_patches),
        "txt_ids": text_ids(case.text_tokens, case.text_ids_distinct),
    }
    guidance = torch.from_numpy(rng.uniform(1.5, 5.0, case.batch).astype(np.float32))
    if not case.no_guidance:
        inputs["guidance"] = guidance
    return inputs


# --------------------------------------------------------------------------------------------------------------- sigmas

# The scheduler of FLUX.1-dev. `shift` is part of its config, but plays no part when shifting is dynamic.
SCHEDULER = {
    "num_train_timesteps": 1000,
    "shift": 3.0,
    "use_dynamic_shifting": True,
    "base_shift": 0.5,
    "max_shift": 1.15,
    "base_image_seq_len": 256,
    "max_image_seq_len": 4096,
}


def shift_mu(image_tokens):
    """mu: the line through (base_image_seq_len, base_shift) and (max_image_seq_len, max_shift)."""
    s = SCHEDULER
    slope = (s["max_shift"] - s["base_shift"]) / (s["max_image_seq_len"] - s["base_image_seq_len"])
    return s["base_shift"] + slope * (image_tokens - s["base_image_seq_len"])


def sigmas_fp64(steps, image_tokens):
    """K+1 Python floats: linspace(1, 1/K, K) = 1 - i/K, shifted to e^mu / (e^mu + 1/sigma - 1), then 0."""
    stretch = math.exp(shift_mu(image_tokens))
    unshifted = [(steps - i) / steps for i in range(steps)]
    return [stretch / (stretch + 1 / sigma - 1) for sigma in unshifted] + [0.0]


def sigmas_diffusers(steps, image_tokens):
    """[K+1] fp32: what diffusers' scheduler makes of the request that its FLUX pipeline sends."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=shift_mu(image_tokens))
    return scheduler.sigmas.clone()


def schedules(case):
    """The sigma tensors of a case, by their names in oracle.safetensors."""
    import torch

    image_tokens = case.height_patches * case.width_patches
    tensors = {}
    for suffix, steps in [("", case.steps)] + [(f"_steps{k}", k) for k in LOOP_STEPS]:
        tensors["sigmas_fp64" + suffix] = torch.tensor(sigmas_fp64(steps, image_tokens), dtype=torch.float64)
        tensors["sigmas_diffusers" + suffix] = sigmas_diffusers(steps, image_tokens)
    return tensors


# ----------------------------------------------------------------------------------------------------------------- runs


def forward(model, inputs):
    """[B,S,C], in the dtype of model and inputs."""
    return model(**inputs, return_dict=False)[0]


def denoise(model, inputs, sigmas):
    """[B,S,C]: Euler steps x += (sigma_next - sigma) * model(x, sigma) from x = hidden_states, over `sigmas` [K+1]."""
    latents = inputs["hidden_states"]
    for sigma, sigma_next in zip(sigmas[:-1], sigmas[1:]):
        request = {**inputs, "hidden_states": latents, "timestep": sigma.expand(latents.shape[0])}
        latents = latents + (sigma_next - sigma) * forward(model, request)
    return latents


def run_all(model, inputs, sigmas):
    """All outputs of a case by name. Leaves `model` in float64: fp32 weights upcast without rounding."""
    import torch

    import fp64_lift

    with torch.no_grad():
        outputs = {"output_fp32": forward(model, inputs)}
    model = model.double()
    wide = {name: tensor.double() for name, tensor in inputs.items()}
    outputs["output_fp64"] = fp64_lift.run_lifted(model, lambda: forward(model, wide))
    for k in LOOP_STEPS:
        own = sigmas[f"sigmas_fp64_steps{k}"]
        outputs[f"latents_fp64_steps{k}"] = fp64_lift.run_lifted(model, lambda: denoise(model, wide, own))
    # After the lifted runs on purpose: it fails if a lift was not undone.
    outputs["output_fp64_casts"] = fp64_lift.run_with_casts(lambda: forward(model, wide))
    return outputs


def relative_l2(x, reference):
    """||x - reference|| / ||reference||, in fp64."""
    reference = reference.double()
    return ((x.double() - reference).norm() / reference.norm()).item()


def metadata(case):
    """What is needed to make the file again; safetensors takes strings only."""
    import diffusers
    import torch

    import fp64_lift

    return {
        "arguments": case.arguments(),
        "diffusers": diffusers.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "seed": str(case.seed),
        "threads": str(THREADS),
        "lift": fp64_lift.METHOD,
        "mu": repr(shift_mu(case.height_patches * case.width_patches)),
    }


def write(case, folder):
    """Writes checkpoint and oracle into `folder` and returns a line of text about them."""
    from safetensors.torch import save_file

    rng = np.random.default_rng(case.seed)
    model = make_model(case, rng)
    inputs = make_inputs(case, rng)
    model.save_pretrained(folder, max_shard_size=case.max_shard_size)
    sigmas = schedules(case)
    outputs = run_all(model, inputs, sigmas)
    tensors = {**inputs, **sigmas, **outputs}
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise RuntimeError("[flux1] an output is not finite")
    save_file({n: t.contiguous() for n, t in tensors.items()}, Path(folder) / "oracle.safetensors", metadata(case))

    exact = outputs["output_fp64"]
    return (
        f"{sum(p.numel() for p in model.parameters())} weights, output rms {exact.square().mean().sqrt():.2f}, "
        f"fp32 error {relative_l2(outputs['output_fp32'], exact):.1e}, "
        f"casts error {relative_l2(outputs['output_fp64_casts'], exact):.1e}"
    )


# --------------------------------------------------------------------------------------------------------- command line


class OneLineParser(argparse.ArgumentParser):
    """argparse that reports a bad argument in one line, without the usage text."""

    def error(self, message):
        self.exit(2, f"make_flux1.py: {' '.join(message.split())}\n")


def whole_number(least):
    """An argparse type: an integer of at least `least`."""

    def parse(text):
        if not re.fullmatch(r"-?\d{1,9}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least} (and below 1e9)")
        return int(text)

    return parse


def axes_list(text):
    """An argparse type: three even sizes, "16,56,56"."""
    if not re.fullmatch(r"\d{1,6},\d{1,6},\d{1,6}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not three sizes such as 16,56,56")
    sizes = tuple(map(int, text.split(",")))
    if any(size < 2 or size % 2 for size in sizes):
        raise argparse.ArgumentTypeError(f"'{text}': each size must be even and at least 2")
    return sizes


def shard_size(text):
    """An argparse type: a size with its unit, "500KB"."""
    if not re.fullmatch(r"[1-9]\d{0,8}(KB|MB|GB)", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 500KB, 20MB or 1GB")
    return text


def make_parser():
    parser = OneLineParser(
        description="Writes small random FLUX.1 checkpoints and their outputs, by diffusers.", allow_abbrev=False
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", metavar="DIR", help="write one checkpoint here")
    target.add_argument("--suite", metavar="DIR", help="write the fixed list of checkpoints here")
    zero_is_fine = {"layers", "single_layers", "seed"}
    metavars = {"axes": "A,B,C", "max_shard_size": "SIZE"}
    for field in dataclasses.fields(Case):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(option, action="store_true", default=None, help="default off")
            continue
        kind = {tuple: axes_list, str: shard_size}.get(type(field.default))
        kind = kind or whole_number(0 if field.name in zero_is_fine else 1)
        text = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        parser.add_argument(option, type=kind, metavar=metavars.get(field.name, "N"), help=f"default {text}")
    return parser


def parse_arguments(arguments):
    """(folder, {name: Case}); the name of a single case is ''."""
    parser = make_parser()
    options = vars(parser.parse_args(arguments))
    out, suite = options.pop("out"), options.pop("suite")
    given = {name: value for name, value in options.items() if value is not None}
    if "" in (out, suite):
        parser.error("the folder's name is empty")
    if suite is not None:
        if given:
            parser.error(f"--suite takes no other option, but got --{next(iter(given)).replace('_', '-')}")
        return Path(suite), SUITE
    case = Case(**given)
    if sum(case.axes) != case.head_dim:
        parser.error(f"--axes {','.join(map(str, case.axes))} add up to {sum(case.axes)}, not to --head-dim {case.head_dim}")
    return Path(out), {"": case}


def make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        make_parser().error(f"cannot write to {folder}: {error.strerror}")


def main(arguments):
    folder, cases = parse_arguments(arguments)
    make_folder(folder)
    import torch  # late, here and above: importing torch and diffusers takes seconds, and bad arguments should not wait

    torch.set_num_threads(THREADS)
    for name, case in cases.items():
        make_folder(folder / name)
        print(f"{folder / name}: {write(case, folder / name)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
