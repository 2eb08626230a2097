"""A Gaussian process small and quick enough to be fitted anew for every proposal.

scikit-learn's takes the likelihood's gradient through an array of (points, points, dimensions) for all points; here
a sample decides on the weights, the gradient is a matrix product, and a proposal takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotri, dtrtri
from scipy.optimize import minimize

_NOISE_BOUNDS = (np.log(1e-4), np.log(0.3))
"""Of the noise's variance in logarithms; the scores' own is 1."""
_WEIGHT_BOUNDS = (np.log(1e-3), np.log(1e2))
_ITERATIONS = 6


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process with the kernel exp(-sum of weight * squared difference), fitted to scores.

    Attributes:
        points: float64 `(points, coordinates)`, each coordinate times the root of its weight.
        weights: float64 `(coordinates,)`, how much each coordinate matters; an inverse squared length scale.
        noise: the variance of a score's noise, in units of the kernel's.
        unfactor: float64 `(points, points)`, the inverse of the kernel matrix's lower Cholesky factor: a product with
            it is some times quicker than solving with the factor for each batch of candidates.
        mean: of the scores; what is expected far from all points.
        whitened: float64 `(points,)`, the scores less their mean, times the factor's inverse.
        variance: the kernel's variance.
    """

    points: np.ndarray
    weights: np.ndarray
    noise: float
    unfactor: np.ndarray
    mean: float
    whitened: np.ndarray
    variance: float

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the noise-free scores, float64 `(n,)` each.

        Args:
            points: float64 `(n, coordinates)`.
        """
        # Single precision tells candidates apart as well, in a fraction of the time.
        exponents = _exponents(points * np.sqrt(self.weights), self.points)
        cross = np.exp(exponents.astype(np.float32)).astype(np.float64)
        # The factor's inverse is a triangle: half the work of a product of whole matrices.
        projected = dtrmm(1.0, self.unfactor, cross.T, lower=1, overwrite_b=1)
        variance = self.variance * (1 - np.einsum("ij,ij->j", projected, projected))
        return self.mean + projected.T @ self.whitened, np.sqrt(np.maximum(variance, 1e-12))


def fit(points: np.ndarray, scores: np.ndarray, owners: np.ndarray, sample: np.ndarray) -> GaussianProcess:
    """The process with the likeliest weights and noise.

    Args:
        points: float64 `(points, coordinates)`.
        scores: float64 `(points,)`, of a spread around 1.
        owners: int64 `(coordinates,)`; the coordinates of one hyperparameter share a weight.
        sample: int64; the points that decide on weights and noise, as the cost grows with their cube.
    """
    weights, noise = _likeliest(points[sample], scores[sample] - scores[sample].mean(), owners)
    scaled = points * np.sqrt(weights[owners])
    kernel = _kernel(scaled)
    kernel[np.diag_indices_from(kernel)] += noise
    factor, _ = dpotrf(kernel, lower=1, clean=1)
    unfactor, _ = dtrtri(factor, lower=1)
    mean = float(scores.mean())
    whitened = unfactor @ (scores - mean)
    variance = max(float(whitened @ whitened) / len(scores), 1e-6)
    return GaussianProcess(
        points=scaled,
        weights=weights[owners],
        noise=noise,
        unfactor=unfactor,
        mean=mean,
        whitened=whitened,
        variance=variance,
    )


def _kernel(points: np.ndarray) -> np.ndarray:
    return np.exp(_exponents(points, points))


def _exponents(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The logarithms of the kernel."""
    exponents = left @ (2 * right.T)
    exponents -= (left**2).sum(axis=1)[:, None]
    exponents -= (right**2).sum(axis=1)
    return np.minimum(exponents, 0.0, out=exponents)


def _likeliest(points: np.ndarray, scores: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights, float64 `(hyperparameters,)`, and noise that make the scores likely: some steps of L-BFGS.

    A weak prior (weights around 1 / their number, noise around 1e-2, both log-normal) settles what few scores leave
    open.
    """
    count = int(owners.max()) + 1
    squares = np.stack(
        [
            ((part[:, None, :] - part[None, :, :]) ** 2).sum(axis=2)
            for part in (points[:, owners == number] for number in range(count))
        ]
    )
    prior = np.append(np.full(count, np.log(min(1.0, 3.0 / count))), np.log(1e-2))
    precision = np.append(np.full(count, 1 / 1.5**2), 1 / 2.0**2)
    flat = squares.reshape(count, -1)
    diagonal = np.diag_indices(len(scores))

    def negative_log_posterior(logs: np.ndarray) -> tuple[float, np.ndarray]:
        weights, noise = np.exp(logs[:-1]), np.exp(logs[-1])
        kernel = np.exp(-weights @ flat).reshape(squares.shape[1:])
        noisy = kernel.copy()
        noisy[diagonal] += noise
        factor, _ = dpotrf(noisy, lower=1, clean=1)  # the wrappers of these take longer than they do
        lower, _ = dpotri(factor, lower=1)
        inverse = lower + lower.T  # dpotrf left the other triangle zero
        inverse[diagonal] *= 0.5
        solved = inverse @ scores
        variance = max(float(scores @ solved), 1e-12) / len(scores)  # the likeliest, in closed form
        inner = inverse - np.outer(solved, solved) / variance
        gradient = np.empty_like(logs)
        gradient[:-1] = -0.5 * weights * (flat @ (inner * kernel).ravel())
        gradient[-1] = 0.5 * noise * np.trace(inner)
        value = 0.5 * len(scores) * np.log(variance) + np.log(factor[diagonal]).sum()
        off = logs - prior
        return value + 0.5 * float(off @ (precision * off)), gradient + precision * off

    bounds = [_WEIGHT_BOUNDS] * count + [_NOISE_BOUNDS]
    found = minimize(
        negative_log_posterior, prior, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS}
    ).x
    return np.exp(found[:-1]), float(np.exp(found[-1]))
