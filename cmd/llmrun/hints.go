package main

// commandHints explain command names of other programs, and names that belong to llmlab.
var commandHints = map[string]string{
	"kv": movedToLab, "gpu": movedToLab, "w8a8": movedToLab, "overhead": movedToLab, "divided": movedToLab, "hetero": movedToLab, "budget": movedToLab, "papers": movedToLab, "split": movedToLab,
	"server":   "llmrun serve answers HTTP requests",
	"pull":     "llmrun downloads nothing: -m takes a model that is on this machine",
	"download": "llmrun downloads nothing: -m takes a model that is on this machine",
	"list":     "models are files: llmrun cache lists imported models, and llmrun sessions lists saved conversations",
	"ls":       "models are files: llmrun cache lists imported models, and llmrun sessions lists saved conversations",
	"rm":       "llmrun cache rm deletes imported models, and llmrun sessions rm deletes conversations",
	"show":     "llmrun inspect describes a model",
	"info":     "llmrun inspect describes a model",
	"create":   "llmrun import writes a model in the format that loads fastest",
	"convert":  "llmrun import writes a model in the format that loads fastest",
	"quantize": "llmrun import --quant writes a model with quantized weights",
	"complete": "llmrun run --raw continues a text",
	"generate": "llmrun run answers a prompt",
}

// movedToLab explains the commands of llmlab.
const movedToLab = "the laboratory is a program of its own: go build ./cmd/llmlab, then llmlab help"
