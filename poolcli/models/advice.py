"""How a model of a format that is not read becomes one that is."""

EXPORT_TORCH = "write it in Python: torch.onnx.export(model, inputs, 'model.onnx')"
EXPORT_KERAS = "write it in Python: model.export('model.onnx', format='onnx')"
EXPORT_SAVED = "convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
