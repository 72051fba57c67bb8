// Package llmrun runs large language models in Go, without cgo. It opens a GGUF file, a
// Hugging Face directory or a pack, generates text, holds conversations, and measures
// models. The llmrun command is built on it.
//
// # Generate text
//
// An [Engine] is an open model: weights, tokenizer, chat template and worker threads. A
// [Session] is one sequence of tokens with its keys and values. [Session.Generate] returns
// an iterator over the pieces of the answer:
//
//	engine, err := llmrun.Open("model.gguf", llmrun.Options{})
//	if err != nil {
//		return err
//	}
//	defer engine.Close()
//	session, err := engine.NewSession()
//	if err != nil {
//		return err
//	}
//	defer session.Close()
//	for piece, err := range session.Generate(ctx, "Once upon a time", llmrun.GenerateOptions{MaxTokens: 100}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(piece.Text)
//	}
//
// [Session.Generate] continues plain text. [Session.Chat] adds a user's message to a
// conversation, renders the conversation with the model's chat template, and generates the
// answer. Use Chat for instruction-tuned models. A second call of either continues the
// sequence, and the engine prefills only the new tokens.
//
// The zero [GenerateOptions] decodes greedily and stops when the model generates its
// end-of-text token. [Engine.DefaultSampling] returns the sampling parameters that the
// model's authors recommend. [Session.Stats] reports why a generation ended, how many
// tokens it processed, and how long it took.
//
// # Other entry points
//
//   - [Engine.Logits] and [Engine.Perplexity] evaluate a model.
//   - [Inspect] reads the metadata and tensors of a model without loading it.
//   - [PlanMemory] computes what fits into a memory budget, and predicts the speed.
//   - [OpenTokenizer] opens a tokenizer without weights.
//   - [Import] converts a model to a pack, the format that loads fastest and that can be
//     streamed from flash.
//
// # Options
//
// The zero [Options] suits most programs. Options.Threads, Options.Context and
// Options.Quantize are direct fields; the rest is grouped in Options.Memory, Options.Cache,
// Options.Device and Options.Lab.
//
// By default the engine quantizes activations to 8 bits before it multiplies them with
// quantized weights, and stores the keys and values of such a model in 8 bits.
// Options.Exact selects float32 for both. Options.Quantize quantizes float weights while
// they are loaded.
//
// The engine writes nothing to disk unless Options.Cache.Dir, Options.Cache.KVDir or
// Options.Lab.Trace is set.
//
// # Memory
//
// Options.Memory.RAM limits the memory of the engine plus the code and Go heap of the
// program around it. Without it, the limit is what the system has available. If the model
// does not fit, the engine streams the remaining weights from flash in every pass. That is
// fastest from a pack: open one, or set Options.Cache.Dir. Weights of other files are converted
// each time they are read, and Options.Notify receives a note about it. If the model cannot run within the
// limit at all, Open returns a [*MinimumError] before it loads anything.
//
// With a limit, the engine sets Go's memory limit, unless Options.Memory.LeaveGoLimit is set.
//
// If Options.Context is 0, the plan chooses how many tokens a session may have: the model's
// limit, or fewer if memory is scarce. [Info].Context has the number.
//
// [Engine.SetBudget] changes the limit, also during a generation. [Engine.Trim] releases
// memory temporarily. With Options.Memory.WatchPressure the engine responds to memory
// pressure by itself.
//
// A session takes [Info].KVBytesPerToken for each token, allocated page by page as the
// session grows; later sessions reuse the pages. If Options.Cache.KVDir or
// Options.Cache.Dir is set, pages that exceed the limit move to flash, and a session can
// use the model's full context. Options.Memory.KV selects the format of keys and values,
// Options.Memory.KVRAM limits their memory, and Options.Memory.KVSelect lets new tokens
// attend to a selection of pages.
//
// Weights, keys, values and scratch buffers are outside Go's heap, so GOGC and GOMEMLIMIT
// do not apply to them. [Engine.MemoryUsed] returns their size and [Engine.Memory] a
// breakdown by purpose. Close releases them. The garbage collector does not, so always
// close engines.
//
// # Sessions on disk
//
// If Options.Cache.KVDir or Options.Cache.Dir is set, the engine saves the keys and values
// of long prompts there. A later prompt with the same beginning, in any session and any
// process, is a prefix-cache hit: the engine reads the keys and values back and prefills
// only the rest. Options.Cache.NoKV turns the prefix cache off.
//
// [Session.Save] saves a session under a name, and [Engine.OpenSession] opens it again.
// [Sessions], [ShowSession], [VerifySession] and [RemoveSession] manage saved sessions.
//
// # Cancellation
//
// To stop a generation, break out of the loop or cancel the context. The engine stops
// within one layer of the current prefill chunk. The session keeps the tokens that the loop
// received, and the next call continues behind them. A prompt whose prefill was interrupted
// does not become part of the session, so the same call can be repeated, unless
// GenerateOptions.KeepPrompt is set. Close also ends a
// running generation, with [ErrClosed].
//
// # Concurrency
//
// All methods of Engine and [Tokenizer] are safe for concurrent use. Each session runs one
// operation at a time: a second call during a generation returns [ErrBusy] and changes
// nothing. Several sessions of an engine may generate concurrently. Their forward passes
// take turns, each on all threads, so they share the engine's speed.
//
// # Reproducibility
//
// The logits of a token are bit-identical for any number of threads, any chunk size, any
// memory budget, any number of concurrent sessions, and any split of the prompt over calls
// or processes. They depend on the model file, on Options.Exact, Options.Quantize,
// Options.Adapters, Options.Memory.KV, Options.Device, and on the type of processor.
// Options.Memory.KVSelect is the exception: with it, the split of a prompt changes which
// pages are attended.
//
// The random number generator is part of this package, so a seed reproduces a text.
// [Stats].Seed reports the seed of a generation. Different types of processors may round
// the last bits differently, and the texts can then diverge where two tokens are equally
// likely.
//
// # Devices
//
// The CPU is the default device. A program built with the tag gpu or npu can set
// Options.Device.Name to run layers on a GPU, or to split each matmul between the CPU and a
// GPU or NPU.
//
// # Security
//
// The package treats model files as untrusted input: a malformed file results in an error
// that names the file and the offset or field. Chat templates run in a sandbox with bounded
// steps and memory. The tokenizer treats special tokens that are spelled in prompts and
// messages, such as <|im_end|>, as plain text, so that a document cannot end a turn.
// [GenerateOptions].ParseSpecial permits them in prompts.
//
// # Errors
//
// Test errors with errors.Is:
//
//   - [ErrOptions] and [ErrSampling] report invalid options.
//   - [ErrFormat] and [ErrModel] report broken files; [IsUnsupported] recognizes errors
//     about valid files that need a feature that is missing.
//   - [ErrBudget] reports that the memory budget does not suffice.
//   - [ErrContextFull] reports that a sequence exceeds the session's limit; a
//     [*ContextFullError] has the numbers.
//   - [ErrNonFinite] reports that the model computed NaN or infinity.
//   - [ErrLocked] reports that a session or pack is in use.
//   - [ErrOtherModel], [ErrOtherSettings] and [ErrKVMissing] report why a saved session
//     cannot be restored.
//
// Errors of file operations wrap those of io/fs. If a context ends, the error wraps the
// context's Err, such as context.Canceled, and its cause.
//
// # Stability
//
// This package and packages serve, notes and mobile are the library. Until version 1.0 their API changes only where a release's notes say so;
// from then on it stays. The other packages of the module are parts of the engine: their API changes at any time.
// Files that this package writes are read by later versions, or refused by their version.
//
// # Limitations
//
// The package supports text only: no images and no audio.
package llmrun
