// Package llmrun runs language models: it opens a GGUF file or a Hugging Face
// directory and continues texts, holds conversations, and measures. It is pure
// Go. The command of the same name is built on it and on nothing else.
//
// # From a file to a text
//
// An [Engine] is an open model: weights, tokenizer, chat template and threads.
// A [Session] is one text that grows. Generating is a loop over pieces of text,
// which come as the model finds them:
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
// [Session.Generate] continues plain text and [Session.Chat] a conversation,
// written down as the model's own template wants it. Models that are tuned for
// conversation answer well only to the latter. Calling either again goes on
// where the session stands: only what is new is read. The zero
// [GenerateOptions] always takes the most likely token and goes on until the
// model ends its text; [Engine.DefaultSampling] is what the model's authors
// recommend instead. [Session.Stats] then says why the text ended, how many
// tokens that were, and how long it took.
//
// [Engine.Logits] and [Engine.Perplexity] measure, [Inspect] looks into a file
// without loading it, [OpenTokenizer] needs no weights at all.
//
// [Options] says what is traded for what. Quantized weights are multiplied with
// activations of 8 bits, and their keys and values kept in 8 bits, unless Exact
// asks for float32. Quantize rounds weights of full precision while they are
// loaded. [Import], or a CacheDir, keeps a model in the form in which it loads
// fastest; without them nothing is written to the disk.
//
// # Stopping
//
// Leave the loop, or end the context: within one layer of the network for one
// chunk of tokens the machine is idle again. What was handed out stays part of
// the session, and the next call continues from there. A prompt that was not
// read to its end does not become part of it, so the call can be repeated.
// Close ends a generation too, with [ErrClosed].
//
// # Who may call what
//
// An Engine and a [Tokenizer] may be used by many goroutines, and so may
// sessions of one engine, each by its own. A session does one thing at a time:
// a second call while it generates returns [ErrBusy] and changes nothing. The
// forward passes of an engine take turns, each on all threads, so sessions at
// the same time share the speed of one.
//
// # The same again
//
// For one file, one choice of Exact, KV, Quantize and Adapters, and one
// processor, the scores of a token are the same bits for any number of threads,
// any chunk size, whatever other sessions do, and whether a text was read at
// once or in parts. Random
// numbers are the library's own. So the same seed gives the same text;
// [Stats].Seed tells the one that was used. Between kinds of processors the last
// bits may differ, and a text can part ways where two tokens were equally
// likely.
//
// # Memory
//
// Weights are read into memory when the engine opens, and stay; the files are
// closed. Keys and values of a session take [Info].KVBytesPerToken for each
// token, page by page as it grows, and are used again by later sessions. All of
// that and the scratch of the arithmetic lies outside Go's heap, where GOGC and
// GOMEMLIMIT do not see it: [Engine.MemoryUsed] tells its size, and Close gives
// it back, so do not leave engines to the garbage collector. There is no limit
// that can be set; what does not fit fails to open, or meets the system's own.
//
// # Trust
//
// Model files are input like any other: a malformed one gives an error that
// names the file and the place, and templates run in a sandbox that is bounded
// in steps and memory. Text is plain text: a prompt or a message that spells
// <|im_end|> cannot end a turn, unless [GenerateOptions].ParseSpecial asks for
// it.
//
// # Errors
//
// Find them with errors.Is: [ErrFormat] and [ErrModel] for files that are
// broken, [IsUnsupported] for sound ones that ask too much, [ErrOptions] and
// [ErrSampling] for options, [ErrContextFull] when a text has become too long,
// [ErrNonFinite] when a model computes no numbers. Errors of files wrap those
// of io/fs. When a context ends, the error is its cause.
//
// # What is not there
//
// Models larger than memory, conversations that are stored, devices other than
// the CPU, images, sound, and embeddings of whole texts.
package llmrun
