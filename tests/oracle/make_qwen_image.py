"""Writes small random Qwen-Image checkpoints with diffusers, and their outputs on fixed inputs.

    make_qwen_image.py --out DIR [options]    one checkpoint
    make_qwen_image.py --suite DIR            a fixed list of checkpoints, each in its own folder under DIR

What a folder holds: oracle_maker.py. The inputs, fp32 (J joint_attention_dim):

    hidden_states [B,S,C]  encoder_hidden_states [B,T,J]  timestep [B] (in [0,1])  img_ids [S,3]  txt_ids [T,3]

diffusers takes the image's shape and derives positions inside the model; the ids are those positions, written down here on
their own so that a run which cuts tokens can cut them too.
"""

import dataclasses

import oracle_maker as maker


@dataclasses.dataclass(frozen=True)
class QwenImageCase(maker.Case):
    pass


SUITE = {
    "h48-d1": QwenImageCase(layers=1, seed=51),
    "h48-heads3-odd": QwenImageCase(heads=3, head_dim=16, axes=(4, 6, 6), height_patches=5, width_patches=7, text_tokens=11,
                                    seed=52),
    "h48-tall": QwenImageCase(height_patches=11, width_patches=3, text_tokens=19, seed=53),
    "h64-batch2": QwenImageCase(heads=4, head_dim=16, axes=(4, 6, 6), batch=2, layers=3, joint_dim=40, seed=54),
    "h128-sharded": QwenImageCase(heads=8, head_dim=16, axes=(4, 6, 6), joint_dim=48, max_shard_size="700KB", seed=55),
    "h384-heads24": QwenImageCase(heads=24, head_dim=16, axes=(4, 6, 6), layers=1, joint_dim=64, in_channels=64, seed=56),
    "h512-qwen-axes": QwenImageCase(heads=4, head_dim=128, axes=(16, 56, 56), layers=1, joint_dim=128, in_channels=64,
                                    height_patches=16, width_patches=16, text_tokens=64, seed=57),
}


def make_model(case, rng):
    """A QwenImageTransformer2DModel in fp32 with random weights; its output has as many channels as its input."""
    from diffusers import QwenImageTransformer2DModel

    model = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=case.in_channels,
        out_channels=case.in_channels // 4,
        num_layers=case.layers,
        attention_head_dim=case.head_dim,
        num_attention_heads=case.heads,
        joint_attention_dim=case.joint_dim,
        axes_dims_rope=case.axes,
    )
    return maker.randomise(model, rng)


def centred(length):
    """0 in the middle: 5 -> -3 … 1, 6 -> -3 … 2."""
    return range(-(length - length // 2), length // 2)


def image_ids(height, width):
    """[S,3]: (0, row, column), rows first, both counted from the middle of the image."""
    import torch

    ids = [[0, row, column] for row in centred(height) for column in centred(width)]
    return torch.tensor(ids, dtype=torch.float32)


def text_ids(tokens, height, width):
    """[T,3]: the same position on all axes, going on after the largest one of the image."""
    import torch

    first = max(height // 2, width // 2)
    return torch.tensor([[first + t] * 3 for t in range(tokens)], dtype=torch.float32)


def make_inputs(case, rng):
    """The model's inputs by name, fp32. Timesteps differ from one batch item to the next."""
    return {
        "hidden_states": maker.random_fp32(rng, (case.batch, case.image_tokens, case.in_channels)),
        "encoder_hidden_states": maker.random_fp32(rng, (case.batch, case.text_tokens, case.joint_dim)),
        "timestep": maker.uniform_fp32(rng, 0.05, 0.95, case.batch),
        "img_ids": image_ids(case.height_patches, case.width_patches),
        "txt_ids": text_ids(case.text_tokens, case.height_patches, case.width_patches),
    }


def forward(case, model, inputs, mask):
    """[B,S,C]; the ids give way to the shape, from which the model makes its own."""
    request = {name: tensor for name, tensor in inputs.items() if name not in {"img_ids", "txt_ids"}}
    shapes = [[(1, case.height_patches, case.width_patches)]] * case.batch
    return model(**request, encoder_hidden_states_mask=mask, img_shapes=shapes, return_dict=False)[0]


FAMILY = maker.Family("qwen_image", "Qwen-Image", QwenImageCase, SUITE, make_model, make_inputs, forward)

if __name__ == "__main__":
    maker.main(FAMILY)
