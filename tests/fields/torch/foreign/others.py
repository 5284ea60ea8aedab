"""Networks of transformers, from their configurations."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from foreign import networks
from torch import nn


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Let torchvision, which transformers imports, be without its operators in C++.

    They fit one version of torch, and these networks need none of them.
    """
    register = torch.library.register_fake

    def lenient(name, *arguments, **options):
        if name.startswith("torchvision::"):
            return lambda function: function
        return register(name, *arguments, **options)

    with mock.patch.object(torch.library, "register_fake", lenient):
        yield


def bert() -> nn.Module:
    with without_kernels():
        from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=networks.TOKENS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=networks.LENGTH,
        num_labels=networks.CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def gpt2() -> nn.Module:
    with without_kernels():
        from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(
        vocab_size=networks.TOKENS,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=networks.LENGTH,
        num_labels=networks.CLASSES,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2ForSequenceClassification(config)
