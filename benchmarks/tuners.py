"""Tuners with the same budget of epochs on real images: best score so far against epochs spent.

    python benchmarks/tuners.py --data-dir DIR [--epochs 54] [--limit 600] [--image-size 64] [--output tuners.csv]

Searches the SqueezeNet space on the flower photos with each tuner, one after the other, from the same seed and the
same first point. One seed on a small subset decides nothing: it shows what each tuner does with its epochs.
"""

from __future__ import annotations

import argparse
import json
import tempfile

import pandas as pd

import workbench

TUNERS = ("random", "hyperband", "asha", "evolution")


def definition(tuner: str, arguments: argparse.Namespace) -> dict[str, object]:
    """The search: the shipped space at a size that fits."""
    return {
        "seed": arguments.seed,
        "dataset": {"name": "flowers", "image_size": arguments.image_size, "limit": arguments.limit},
        "model": {
            "name": "squeezenet",
            "space": {
                "pools": [2, 3],
                "stage_*/fire_modules": 1,
                "stage_*/expand": {"min": 16, "max": 96, "step": 16},
                "stage_*/squeeze_ratio": 0.5,
                "filters": "per_stage",
                "bypass": ["none", "simple"],
                "stem_kernel": 3,
            },
        },
        "augmentation": {"names": ["none", "flip_saturation"]},
        "schedule": {
            "name": "warmup_cosine",
            "space": {"*": "default", "learning_rate": {"min": 5e-4, "max": 8e-3, "sampling": "log"}},
        },
        "training": {"epochs": 9, "batch_size_per_replica": 32, "space": {"*": "default"}},
        "budget": {"max_trials": 1000, "max_epochs": arguments.epochs},
        "tuner": {"name": tuner},
    }


def main() -> None:
    """Runs the searches and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--epochs", type=int, default=54, help="budget of each tuner")
    parser.add_argument("--limit", type=int, default=600, help="training images")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="CSV with one row a tuner and epoch")
    arguments = parser.parse_args()
    tables, summary = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for tuner in TUNERS:
            study = workbench.search(
                definition(tuner, arguments), study=tuner, directory=folder, data_dir=arguments.data_dir
            )
            table = study.best_so_far("epochs").rename(columns={"epochs": "epochs_spent"}).assign(tuner=tuner)
            tables.append(table)
            trials = study.trials()
            summary[tuner] = {
                "best": float(table["best"].iloc[-1]),
                "epochs": len(table),
                "trials": len(trials),
                "seconds": round(float(trials["seconds"].sum()), 1),
            }
            print(f"{tuner}: {summary[tuner]}", flush=True)
    whole = pd.concat(tables)
    if arguments.output:
        whole[["tuner", "epochs_spent", "best"]].to_csv(arguments.output, index=False)
    steps = list(range(9, arguments.epochs + 1, 9))
    wide = whole[whole["epochs_spent"].isin(steps)].pivot(index="epochs_spent", columns="tuner", values="best")
    print(wide[list(TUNERS)].round(4).to_string())
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
