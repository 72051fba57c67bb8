// Package modelfile opens model files and reports what they contain: the tensors by role,
// the tokenizer, the chat template, the sampling defaults, and the network that they
// describe.
//
// A model is a GGUF file, a directory of safetensors, or a pack. Open returns it as Files;
// OpenCached imports it into a cache of packs first. TensorSet finds tensors by role and
// checks their shapes. Files whose weights have another form than the kernels support
// appear through an Overlay, which converts rows as they are read: integers packed by GPTQ
// or AWQ (integers.go), merged LoRA adapters (lora.go), and float weights that a Mix
// quantizes (requantize.go).
//
// Begin with files.go and tensors.go.
package modelfile
