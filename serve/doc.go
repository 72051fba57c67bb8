// Package serve answers HTTP requests of clients for OpenAI's, ollama's and Anthropic's APIs with models that
// package llmrun opens. New returns a handler, so that a program can mount it beside its own pages and behind its own
// authentication:
//
//	server, err := serve.New(serve.Options{Models: []serve.Model{{Name: "notes", Path: "notes.gguf"}}})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	mux.Handle("/llm/", http.StripPrefix("/llm", server))
//
// A program whose only service this is takes [NewHTTPServer], which sets the time limits for headers.
//
// # Requests
//
// A request passes four rooms. The guard refuses foreign hosts and origins and wrong keys. The queue admits a
// bounded number of requests, lets the clients take turns, and answers the others with 429 or 503 and
// Retry-After. The reader accepts a bounded body of well-formed JSON. Then a dialect (OpenAI, ollama) translates
// the fields to [llmrun.GenerateOptions], and pieces of the answer to the dialect's chunks. Each chunk has a
// deadline, so a client that reads nothing loses its answer and delays nobody. A client that leaves cancels its
// generation, which ends within a layer.
//
// # Models
//
// A model is opened for the first request that names it, and closed when no request has used it for a while. With
// Options.RAM one model is open at a time, because each may use the whole budget; requests for another one wait
// until it is idle. Sessions of a model share passes over its weights.
//
// # Prompt cache
//
// The server keeps no table of prompts. The sessions of the last answers stay open, and a new session of the same
// model shares the keys and values of a common beginning. Long prompts are in the prefix cache on flash if
// the model's Options.Cache names a directory, also after a restart.
package serve
