"""Writes small random FLUX.1 checkpoints with diffusers, and their outputs on fixed inputs.

    make_flux1.py --out DIR [options]    one checkpoint
    make_flux1.py --suite DIR            a fixed list of checkpoints, each in its own folder under DIR

What a folder holds: oracle_maker.py. The inputs, fp32 (J joint_attention_dim, P pooled_projection_dim):

    hidden_states [B,S,C]  encoder_hidden_states [B,T,J]  pooled_projections [B,P]  timestep [B] (in [0,1])
    guidance [B] (models with guidance only)  img_ids [S,3]  txt_ids [T,3]
"""

import dataclasses

import oracle_maker as maker


@dataclasses.dataclass(frozen=True)
class Flux1Case(maker.Case):
    single_layers: int = 2
    pooled_dim: int = 24
    no_guidance: bool = False
    text_ids_distinct: bool = False


SUITE = {
    "h48-d1-s1": Flux1Case(layers=1, single_layers=1, seed=11),
    "h48-noguidance": Flux1Case(no_guidance=True, text_ids_distinct=True, seed=12),
    "h48-heads3-odd": Flux1Case(heads=3, head_dim=16, axes=(4, 6, 6), height_patches=5, width_patches=7, text_tokens=11,
                                text_ids_distinct=True, seed=13),
    "h64-batch2": Flux1Case(heads=4, head_dim=16, axes=(4, 6, 6), batch=2, layers=2, single_layers=3, joint_dim=40,
                            pooled_dim=20, text_ids_distinct=True, seed=14),
    "h96-d4-s4": Flux1Case(heads=6, head_dim=16, axes=(8, 4, 4), layers=4, single_layers=4, in_channels=32, seed=15),
    "h128-sharded": Flux1Case(heads=8, head_dim=16, axes=(4, 6, 6), layers=2, single_layers=2, joint_dim=48,
                              text_ids_distinct=True, max_shard_size="700KB", seed=16),
    "h192-d1-s3-noguidance": Flux1Case(heads=8, head_dim=24, axes=(4, 10, 10), layers=1, single_layers=3, no_guidance=True,
                                       batch=3, height_patches=8, width_patches=12, text_tokens=48, seed=17),
    "h256-d3-s1": Flux1Case(heads=4, head_dim=64, axes=(8, 28, 28), layers=3, single_layers=1, joint_dim=96, pooled_dim=64,
                            in_channels=64, height_patches=8, width_patches=8, text_tokens=32, text_ids_distinct=True,
                            seed=18),
    "h384-heads24": Flux1Case(heads=24, head_dim=16, axes=(4, 6, 6), layers=1, single_layers=2, joint_dim=64,
                              pooled_dim=48, in_channels=64, seed=19),
    "h512-flux-axes": Flux1Case(heads=4, head_dim=128, axes=(16, 56, 56), layers=1, single_layers=1, joint_dim=128,
                                pooled_dim=96, in_channels=64, height_patches=16, width_patches=16, text_tokens=64,
                                text_ids_distinct=True, seed=20),
}


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
    return maker.randomise(model, rng)


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
    inputs = {
        "hidden_states": maker.random_fp32(rng, (case.batch, case.image_tokens, case.in_channels)),
        "encoder_hidden_states": maker.random_fp32(rng, (case.batch, case.text_tokens, case.joint_dim)),
        "pooled_projections": maker.random_fp32(rng, (case.batch, case.pooled_dim)),
        "timestep": maker.uniform_fp32(rng, 0.05, 0.95, case.batch),
        "img_ids": image_ids(case.height_patches, case.width_patches),
        "txt_ids": text_ids(case.text_tokens, case.text_ids_distinct),
    }
    guidance = maker.uniform_fp32(rng, 1.5, 5.0, case.batch)
    if not case.no_guidance:
        inputs["guidance"] = guidance
    return inputs


def forward(case, model, inputs, mask):
    """[B,S,C]; a mask goes to the attention processors, which is the only way FLUX.1 takes one."""
    attention = None if mask is None else {"attention_mask": maker.joint_mask(mask, case.image_tokens)}
    return model(**inputs, joint_attention_kwargs=attention, return_dict=False)[0]


FAMILY = maker.Family("flux1", "FLUX.1", Flux1Case, SUITE, make_model, make_inputs, forward)

if __name__ == "__main__":
    maker.main(FAMILY)
