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
// without loading it, [PlanMemory] says what of a model would stay in memory, and
// [OpenTokenizer] needs no weights at all.
//
// [Options] says what is traded for what. Quantized weights are multiplied with
// activations of 8 bits, and their keys and values kept in 8 bits, unless Exact
// asks for float32. Quantize rounds weights of full precision while they are
// loaded. Nothing is written to the disk unless Options name a directory: [Import],
// or a CacheDir, keeps a model in the form in which it loads fastest, a pack.
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
// For one file, one choice of Exact, KV, Quantize and Adapters, without KVSelect, and
// one processor, the scores of a token are the same bits for any number of threads,
// any chunk size, any budget, whatever other sessions do, and whether a text was read
// at once, in parts, or by another process that kept it. Random numbers are the
// library's own. So the same seed gives the same text;
// [Stats].Seed tells the one that was used. Between kinds of processors the last
// bits may differ, and a text can part ways where two tokens were equally
// likely.
//
// # Memory
//
// [Options].RAM limits all that the engine takes, and the program around it with its
// heap and code; without it the limit is what the system has to give. A model that
// does not fit is read from flash while it is used, for which it has to be a pack.
// What cannot work at all is refused with a [*MinimumError] before anything is
// loaded. [Engine.SetBudget] changes the limit while text is generated,
// [Engine.Trim] gives memory back for a while, and with Options.WatchPressure the
// engine does so by itself.
//
// Keys and values of a session take [Info].KVBytesPerToken for each token, page by
// page as it grows, and their memory is used again by later sessions. With a KVDir
// or CacheDir, those for which there is no memory go to flash, and a text is as long
// as the model allows.
//
// All of that and the scratch of the arithmetic lies outside Go's heap, where GOGC
// and GOMEMLIMIT do not see it: [Engine.MemoryUsed] tells its size, [Engine.Memory]
// what it is for, and Close gives it back, so do not leave engines to the garbage
// collector.
//
// # What is kept
//
// In a KVDir or CacheDir what was read of long prompts is kept and found again by its
// content, in any process, unless NoKVCache is set. [Session.Save] keeps a whole
// conversation under a name, and [Engine.OpenSession] goes on with it. [Sessions],
// [ShowSession], [VerifySession] and [RemoveSession] look after them.
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
// [ErrSampling] for options, [ErrBudget] for memory, [ErrContextFull] when a text has
// become too long, [ErrNonFinite] when a model computes no numbers, [ErrLocked] for a
// session that is in use, and [ErrOtherModel], [ErrOtherSettings] or [ErrKVMissing] for
// one that cannot be opened as it is. Errors of files wrap those of io/fs. When a
// context ends, the error is its cause.
//
// # Devices
//
// The CPU computes. In a program that is built with the tag gpu or npu, Options.Device
// names another device that computes a model's layers, or divides each product with the
// CPU.
//
// # What is not there
//
// Images, sound, and embeddings of whole texts.
package llmrun
