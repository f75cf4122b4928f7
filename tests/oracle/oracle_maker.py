"""What the make_*.py scripts share: random weights, schedules, the runs by diffusers, the files, and the command line.

A script describes its family in a `Family`: how its model and inputs are made and how diffusers is called. Each folder that is
written holds what `save_pretrained` writes (`config.json` and fp32 safetensors, or shards and an index) and
`oracle.safetensors`. Shape letters: B batch, S image tokens, T text tokens, C in_channels, K denoising steps.

    inputs, fp32   as the script lists them, and encoder_hidden_states_mask [B,T] bool (true = attend), for *_masked only
    outputs        output_fp32        [B,S,C] fp32   plain diffusers
                   output_fp64_casts  [B,S,C] fp64   model.double(), diffusers' own float32 casts left in
                   output_fp64        [B,S,C] fp64   no float32 anywhere (fp64_lift.py)
                   output_fp32_masked, output_fp64_masked   the same with the mask over the text keys
    schedules      sigmas_fp64 [K+1] fp64, sigmas_diffusers [K+1] fp32 for K = --steps; with the suffix _steps1 and _steps4
                   the same for K = 1 and K = 4: FLUX.1-dev's schedule for every family, so that one loop serves all
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
from collections.abc import Callable
from pathlib import Path

import numpy as np

THREADS = 1  # fixed, as the last bits of fp32 results depend on it; models this small gain nothing from more
LOOP_STEPS = (1, 4)


@dataclasses.dataclass(frozen=True)
class Case:
    """One checkpoint and one request; every field is a command line option of the same name. Families add their own."""

    heads: int = 4
    head_dim: int = 12
    layers: int = 2
    joint_dim: int = 32
    in_channels: int = 16
    axes: tuple = (4, 4, 4)
    batch: int = 1
    height_patches: int = 6
    width_patches: int = 8
    text_tokens: int = 24
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

    @property
    def image_tokens(self):
        return self.height_patches * self.width_patches


@dataclasses.dataclass(frozen=True)
class Family:
    """How diffusers makes and runs one model family."""

    name: str  # of the script, make_<name>.py
    title: str
    case: type  # a subclass of Case
    suite: dict  # {folder: case}
    make_model: Callable  # (case, rng) -> model in fp32
    make_inputs: Callable  # (case, rng) -> {name: fp32 tensor}, as they are stored
    forward: Callable  # (case, model, inputs, mask or None) -> [B,S,C], in the dtype of model and inputs


# ---------------------------------------------------------------------------------------------------- weights and inputs


def random_fp32(rng, shape, mean=0.0, std=1.0):
    """A normal fp32 tensor. numpy draws it: torch's CPU generator gives other bits on CPUs with other vector units."""
    import torch

    return torch.from_numpy((mean + std * rng.standard_normal(shape)).astype(np.float32))


def uniform_fp32(rng, low, high, count):
    """[count] fp32."""
    import torch

    return torch.from_numpy(rng.uniform(low, high, count).astype(np.float32))


def randomise(model, rng):
    """Overwrites every parameter, so that each path of the model moves its output; returns the model, ready to run.

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
                if layer.bias is not None:
                    layer.bias.copy_(random_fp32(rng, layer.bias.shape, std=0.2))
            elif type(layer).__name__ == "RMSNorm":  # torch's or diffusers'
                layer.weight.copy_(random_fp32(rng, layer.weight.shape, mean=1.0, std=0.2))
            else:
                raise RuntimeError(f"[oracle] no rule for the parameters {sorted(own)} of {name} ({type(layer).__name__})")
    return model.eval()


def key_mask(case):
    """[B,T] bool: the last quarter of the text is padding, and every fifth token before it, other ones for each item."""
    import torch

    token = torch.arange(case.text_tokens)
    rows = [(token < case.text_tokens - case.text_tokens // 4) & ((token + item) % 5 != 3) for item in range(case.batch)]
    return torch.stack(rows)


def joint_mask(mask, image_tokens):
    """[B,1,1,T+S] bool for an attention over [text ; image]: every image token is attended to."""
    import torch

    image = torch.ones(mask.shape[0], image_tokens, dtype=torch.bool)
    return torch.cat([mask, image], dim=1)[:, None, None, :]


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

    tensors = {}
    for suffix, steps in [("", case.steps)] + [(f"_steps{k}", k) for k in LOOP_STEPS]:
        tensors["sigmas_fp64" + suffix] = torch.tensor(sigmas_fp64(steps, case.image_tokens), dtype=torch.float64)
        tensors["sigmas_diffusers" + suffix] = sigmas_diffusers(steps, case.image_tokens)
    return tensors


# ----------------------------------------------------------------------------------------------------------------- runs


def denoise(forward, inputs, sigmas):
    """[B,S,C]: Euler steps x += (sigma_next - sigma) * forward(x, sigma) from x = hidden_states, over `sigmas` [K+1]."""
    latents = inputs["hidden_states"]
    for sigma, sigma_next in zip(sigmas[:-1], sigmas[1:]):
        request = {**inputs, "hidden_states": latents, "timestep": sigma.expand(latents.shape[0])}
        latents = latents + (sigma_next - sigma) * forward(request)
    return latents


def run_all(family, case, model, inputs, mask, sigmas):
    """All outputs of a case by name. Leaves `model` in float64: fp32 weights upcast without rounding."""
    import torch

    import fp64_lift

    def forward(request, key_mask=None):
        return family.forward(case, model, request, key_mask)

    with torch.no_grad():
        outputs = {"output_fp32": forward(inputs), "output_fp32_masked": forward(inputs, mask)}
    model = model.double()
    wide = {name: tensor.double() for name, tensor in inputs.items()}
    outputs["output_fp64"] = fp64_lift.run_lifted(model, lambda: forward(wide))
    outputs["output_fp64_masked"] = fp64_lift.run_lifted(model, lambda: forward(wide, mask))
    for k in LOOP_STEPS:
        own = sigmas[f"sigmas_fp64_steps{k}"]
        outputs[f"latents_fp64_steps{k}"] = fp64_lift.run_lifted(model, lambda: denoise(forward, wide, own))
    # After the lifted runs on purpose: it fails if a lift was not undone.
    outputs["output_fp64_casts"] = fp64_lift.run_with_casts(lambda: forward(wide))
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
        "mu": repr(shift_mu(case.image_tokens)),
    }


def write(family, case, folder):
    """Writes checkpoint and oracle into `folder` and returns a line of text about them."""
    from safetensors.torch import save_file

    rng = np.random.default_rng(case.seed)
    model = family.make_model(case, rng)
    inputs = family.make_inputs(case, rng)
    mask = key_mask(case)
    model.save_pretrained(folder, max_shard_size=case.max_shard_size)
    sigmas = schedules(case)
    outputs = run_all(family, case, model, inputs, mask, sigmas)
    tensors = {**inputs, "encoder_hidden_states_mask": mask, **sigmas, **outputs}
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise RuntimeError(f"[{family.name}] an output is not finite")
    save_file({n: t.contiguous() for n, t in tensors.items()}, Path(folder) / "oracle.safetensors", metadata(case))

    exact = outputs["output_fp64"]
    return (
        f"{sum(p.numel() for p in model.parameters())} weights, output rms {exact.square().mean().sqrt():.2f}, "
        f"fp32 error {relative_l2(outputs['output_fp32'], exact):.1e}, "
        f"casts error {relative_l2(outputs['output_fp64_casts'], exact):.1e}, "
        f"mask moves it by {relative_l2(outputs['output_fp64_masked'], exact):.1e}"
    )


# --------------------------------------------------------------------------------------------------------- command line


class OneLineParser(argparse.ArgumentParser):
    """argparse that reports a bad argument in one line, without the usage text."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def whole_number(least):
    """An argparse type: an integer of at least `least`."""

    def parse(text):
        if not re.fullmatch(r"-?\d{1,9}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least} (and below 1e9)")
        return int(text)

    return parse


def positive_number(text):
    """An argparse type: a decimal number above 0."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number such as 3.0")
    return float(text)


def axes_list(count):
    """An argparse type: `count` even sizes, "16,56,56"."""

    def parse(text):
        if not re.fullmatch(r"\d{1,6}(,\d{1,6}){%d}" % (count - 1), text):
            raise argparse.ArgumentTypeError(f"'{text}' is not {count} sizes such as {','.join(['32'] * count)}")
        sizes = tuple(map(int, text.split(",")))
        if any(size < 2 or size % 2 for size in sizes):
            raise argparse.ArgumentTypeError(f"'{text}': each size must be even and at least 2")
        return sizes

    return parse


def shard_size(text):
    """An argparse type: a size with its unit, "500KB"."""
    if not re.fullmatch(r"[1-9]\d{0,8}(KB|MB|GB)", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 500KB, 20MB or 1GB")
    return text


def option_type(field):
    """The argparse type of a Case's field, by its default."""
    if isinstance(field.default, tuple):
        return axes_list(len(field.default))
    if isinstance(field.default, int):
        return whole_number(0 if field.name in {"layers", "single_layers", "seed"} else 1)
    return {float: positive_number, str: shard_size}[type(field.default)]


def make_parser(family):
    parser = OneLineParser(
        prog=f"make_{family.name}.py",
        description=f"Writes small random {family.title} checkpoints and their outputs, by diffusers.",
        allow_abbrev=False,
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", metavar="DIR", help="write one checkpoint here")
    target.add_argument("--suite", metavar="DIR", help="write the fixed list of checkpoints here")
    metavars = {"axes": "A,B,…", "max_shard_size": "SIZE"}
    for field in dataclasses.fields(family.case):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(option, action="store_true", default=None, help="default off")
            continue
        text = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        parser.add_argument(option, type=option_type(field), metavar=metavars.get(field.name, "N"), help=f"default {text}")
    return parser


def parse_arguments(family, arguments):
    """(folder, {name: case}); the name of a single case is ''."""
    parser = make_parser(family)
    options = vars(parser.parse_args(arguments))
    out, suite = options.pop("out"), options.pop("suite")
    given = {name: value for name, value in options.items() if value is not None}
    if "" in (out, suite):
        parser.error("the folder's name is empty")
    if suite is not None:
        if given:
            parser.error(f"--suite takes no other option, but got --{next(iter(given)).replace('_', '-')}")
        return Path(suite), family.suite
    case = family.case(**given)
    if sum(case.axes) != case.head_dim:
        parser.error(f"--axes {','.join(map(str, case.axes))} add up to {sum(case.axes)}, not to --head-dim {case.head_dim}")
    return Path(out), {"": case}


def make_folder(family, folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        make_parser(family).error(f"cannot write to {folder}: {error.strerror}")


def main(family, arguments=None):
    folder, cases = parse_arguments(family, sys.argv[1:] if arguments is None else arguments)
    make_folder(family, folder)
    import torch  # late, here and above: importing torch and diffusers takes seconds, and bad arguments should not wait

    torch.set_num_threads(THREADS)
    for name, case in cases.items():
        make_folder(family, folder / name)
        print(f"{folder / name}: {write(family, case, folder / name)}", flush=True)
