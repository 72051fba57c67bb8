package main

// commandHints explain command names of other programs, and names that belong to llmlab.
var commandHints = map[string]string{
	"kv": movedToLab, "gpu": movedToLab, "w8a8": movedToLab, "overhead": movedToLab, "divided": movedToLab, "hetero": movedToLab, "budget": movedToLab, "papers": movedToLab, "split": movedToLab,
	"server":   "llmrun serve answers HTTP requests",
	"download": "llmrun pull downloads a model",
	"list":     "llmrun models lists the models here, llmrun cache those that were imported, and llmrun sessions conversations",
	"ls":       "llmrun models lists the models here, llmrun cache those that were imported, and llmrun sessions conversations",
	"rm":       "llmrun models rm deletes pulled models, llmrun cache rm imported ones, and llmrun sessions rm conversations",
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
