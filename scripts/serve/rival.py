"""What one would write oneself: a network as ONNX in onnxruntime behind FastAPI. `load --rival` runs it beside `fidgp serve`.

    MODEL=model.onnx THREADS=2 uvicorn rival:app --app-dir scripts/serve
"""
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI
from pydantic import BaseModel

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ.get("THREADS", "1"))
session = onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
given, outputs = session.get_inputs()[0].name, [output.name for output in session.get_outputs()]
app = FastAPI()


class Row(BaseModel):
    row: list[float]


@app.post("/predict")
async def predict(row: Row):
    """One row at a time, in the thread that reads the requests: for so small a network anything else is slower."""
    said = session.run(None, {given: np.asarray([row.row], np.float32)})
    return {name: float(np.ravel(values)[0]) for name, values in zip(outputs, said)}
