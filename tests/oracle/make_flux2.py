"""Writes small random FLUX.2 checkpoints with diffusers, and their outputs on fixed inputs.

    make_flux2.py --out DIR [options]    one checkpoint
    make_flux2.py --suite DIR            a fixed list of checkpoints, each in its own folder under DIR

What a folder holds: oracle_maker.py. The inputs, fp32 (J joint_attention_dim):

    hidden_states [B,S,C]  encoder_hidden_states [B,T,J]  timestep [B] (in [0,1])  guidance [B] (models with guidance only)
    img_ids [S,4]  txt_ids [T,4]  as (frame, row, column, text position); diffusers takes them with or without a batch dim
"""

import dataclasses

import oracle_maker as maker


@dataclasses.dataclass(frozen=True)
class Flux2Case(maker.Case):
    single_layers: int = 2
    axes: tuple = (2, 2, 4, 4)
    mlp_ratio: float = 3.0
    rope_theta: int = 2000
    timestep_channels: int = 256
    no_guidance: bool = False
    text_ids_distinct: bool = False


SUITE = {
    "h48-d1-s1": Flux2Case(layers=1, single_layers=1, seed=31),
    "h48-noguidance": Flux2Case(no_guidance=True, text_ids_distinct=True, seed=32),
    "h48-heads3-odd": Flux2Case(heads=3, head_dim=16, axes=(4, 4, 4, 4), height_patches=5, width_patches=7, text_tokens=11,
                                text_ids_distinct=True, seed=33),
    # Without guidance: so few channels leave much to sin and cos of guidance * 1000, where fp32 alone costs 2e-5.
    "h64-batch2-ratio": Flux2Case(heads=4, head_dim=16, axes=(2, 4, 6, 4), batch=2, single_layers=3, joint_dim=40,
                                  mlp_ratio=2.5, rope_theta=10000, timestep_channels=64, no_guidance=True,
                                  text_ids_distinct=True, seed=34),
    "h128-sharded": Flux2Case(heads=8, head_dim=16, axes=(4, 4, 4, 4), joint_dim=48, text_ids_distinct=True,
                              max_shard_size="700KB", seed=35),
    "h384-heads24": Flux2Case(heads=24, head_dim=16, axes=(4, 4, 4, 4), layers=1, single_layers=2, joint_dim=64,
                              in_channels=64, seed=36),
    "h512-flux-axes": Flux2Case(heads=4, head_dim=128, axes=(32, 32, 32, 32), layers=1, single_layers=1, joint_dim=128,
                                in_channels=128, height_patches=16, width_patches=16, text_tokens=64, seed=37),
}


def make_model(case, rng):
    """A Flux2Transformer2DModel in fp32 with random weights."""
    from diffusers import Flux2Transformer2DModel

    model = Flux2Transformer2DModel(
        in_channels=case.in_channels,
        num_layers=case.layers,
        num_single_layers=case.single_layers,
        attention_head_dim=case.head_dim,
        num_attention_heads=case.heads,
        joint_attention_dim=case.joint_dim,
        timestep_guidance_channels=case.timestep_channels,
        mlp_ratio=case.mlp_ratio,
        axes_dims_rope=case.axes,
        rope_theta=case.rope_theta,
        guidance_embeds=not case.no_guidance,
    )
    return maker.randomise(model, rng)


def image_ids(height, width):
    """[S,4]: (0, row, column, 0), rows first, as the pipeline numbers a single image's patches."""
    import torch

    return torch.tensor([[0, row, column, 0] for row in range(height) for column in range(width)], dtype=torch.float32)


def text_ids(tokens, distinct):
    """[T,4]: (0, 0, 0, position) as in the pipeline, or all axes different and not 0, so that a swapped axis shows."""
    import torch

    rows = [[t + 1, 2 * t + 3, 3 * t + 2, 5 * t + 4] if distinct else [0, 0, 0, t] for t in range(tokens)]
    return torch.tensor(rows, dtype=torch.float32)


def make_inputs(case, rng):
    """The model's inputs by name, fp32. Timestep and guidance differ from one batch item to the next."""
    inputs = {
        "hidden_states": maker.random_fp32(rng, (case.batch, case.image_tokens, case.in_channels)),
        "encoder_hidden_states": maker.random_fp32(rng, (case.batch, case.text_tokens, case.joint_dim)),
        "timestep": maker.uniform_fp32(rng, 0.05, 0.95, case.batch),
        "img_ids": image_ids(case.height_patches, case.width_patches),
        "txt_ids": text_ids(case.text_tokens, case.text_ids_distinct),
    }
    guidance = maker.uniform_fp32(rng, 1.5, 5.0, case.batch)
    if not case.no_guidance:
        inputs["guidance"] = guidance
    return inputs


def forward(case, model, inputs, mask):
    """[B,S,C]; a mask goes to the attention processors, which is the only way FLUX.2 takes one."""
    attention = None if mask is None else {"attention_mask": maker.joint_mask(mask, case.image_tokens)}
    return model(**inputs, joint_attention_kwargs=attention, return_dict=False)[0]


FAMILY = maker.Family("flux2", "FLUX.2", Flux2Case, SUITE, make_model, make_inputs, forward)

if __name__ == "__main__":
    maker.main(FAMILY)
