"""What one would write oneself: a network as ONNX in onnxruntime behind FastAPI. `load --rival` runs it beside `fidgp serve`.

    MODEL=model.onnx THREADS=2 uvicorn rival:app --app-dir scripts/serve

A table's network takes {"row": [...]}, one for pictures the bytes of the pixels, channel by channel.
"""
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ.get("THREADS", "1"))
session = onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
given, outputs = session.get_inputs()[0], [output.name for output in session.get_outputs()]
app = FastAPI()


def answer(batch):
    said = (np.ravel(values) for values in session.run(None, {given.name: batch}))
    return {name: values.tolist() if values.size > 1 else values.item() for name, values in zip(outputs, said)}


if len(given.shape) == 2:
    @app.post("/predict")
    async def predict(row: dict[str, list[float]]):
        """One row at a time, in the thread that reads the requests: for so small a network anything else is slower."""
        return answer(np.asarray([row["row"]], np.float32))
else:
    @app.post("/predict")
    async def predict(request: Request):
        """One picture at a time: all cores work for it, and the next one waits."""
        pixels = np.frombuffer(await request.body(), np.uint8)
        return answer(pixels.astype(np.float32).reshape(1, *given.shape[1:]))
