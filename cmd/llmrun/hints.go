package main

// commandHints explain what other programs call commands, and the bench verbs of llmlab.
var commandHints = map[string]string{
	"kv": movedToLab, "gpu": movedToLab, "w8a8": movedToLab, "overhead": movedToLab, "divided": movedToLab, "hetero": movedToLab, "budget": movedToLab,
	"serve":    "there is no server: run answers one prompt, chat holds a conversation, and the Go library does both in a program",
	"server":   "there is no server: run answers one prompt, chat holds a conversation, and the Go library does both in a program",
	"pull":     "nothing is downloaded: -m takes a model that is on this machine",
	"download": "nothing is downloaded: -m takes a model that is on this machine",
	"list":     "models are files: llmrun cache lists those that were imported, and llmrun sessions what was said",
	"ls":       "models are files: llmrun cache lists those that were imported, and llmrun sessions what was said",
	"rm":       "llmrun cache rm deletes imported models, and llmrun sessions rm conversations",
	"show":     "llmrun inspect shows what a model is",
	"info":     "llmrun inspect shows what a model is",
	"create":   "llmrun import writes a model in the form that loads fastest",
	"convert":  "llmrun import writes a model in the form that loads fastest",
	"quantize": "llmrun import --quant writes a model with rounded weights",
	"complete": "llmrun run --raw continues a text",
	"generate": "llmrun run answers a prompt",
}

// movedToLab explains verbs of the laboratory.
const movedToLab = "the laboratory is a program of its own: go build ./cmd/llmlab, then llmlab help"
