// Package modelfile opens a model on flash and says what its files contain: tensors by
// role, tokenizer, chat template, sampling defaults, and the network that they describe.
//
// A model is a GGUF file, a directory of safetensors, or a pack. Files that hold weights
// in another form than the engine computes with appear through an overlay, which converts
// rows as they are read: integers packed by GPTQ or AWQ, merged LoRA adapters, and float
// weights that a Mix quantizes.
package modelfile
