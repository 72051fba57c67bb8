package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:     "run",
		Synopsis: "[-m MODEL] [-p TEXT | -f FILE | --ids LIST] [flags]",
		Summary:  "answer one prompt",
		About: `Answers a prompt and prints the answer as the model generates it. The prompt is the text of -p, files, or standard input; what is piped in beside -p is a document that comes before its text. Files are UTF-8 or UTF-16; what is no text is refused with the command that makes text of it. If the model has a chat template, the prompt becomes a user message; with --raw the model continues the text without the template.

Timings go to standard error. --json prints one object at the end: ids and text of the answer, stop_reason, shortest_tokens (with --schema, --regex or --grammar: a number for -n that is enough for a whole answer), prompt_tokens, generated_tokens, reused_tokens (prompt tokens whose keys and values were reused), recalled_tokens (those of them that came from the prefix cache on flash), kept_bytes (written to the cache), prefill_seconds, decode_seconds, first_token_seconds, prefill_tok_per_s, decode_tok_per_s, slides and forgotten_tokens (see --overflow), passes of the model after the prompt, tokens_per_pass, drafters (name, proposed and accepted guesses; see --draft), seed unless --temp is 0, thinking (what the model thought before the answer), sources (with --notes: the files that the answer comes from), tool_calls (id, name, arguments), and stats with --stats. With --logprobs, logprobs lists id, text, logprob and top_logprobs of each token. With --samples, candidates lists text, ids, score, logprob (the mean of its tokens), steps (scores of its steps, with --reward-marker), answer (what it votes for), generated_tokens, stop_reason and seed of each answer, and its logprobs with --logprobs; with --beam, candidates are the beams that are left, and steps lists the continuations of each step: of (the index of the beginning in the step before, -1 in the first), text of the step, score, kept; steps_left_out counts further steps, for which the list has no room; chosen is the index of the one that was taken, why says why, and generated_tokens and tokens_per_pass count the tokens of all of them.`,
		Brief: `Answers a prompt and prints the answer as the model generates it. The prompt is the text of -p, files, or standard input; what is piped in beside -p is a document that comes before its text.`,
		Examples: []cli.Example{
			{Line: `llmrun run -p "Tell me a story about a brave fox named Ruby."`, Purpose: "a story from " + defaultModel},
			{Line: `llmrun run -f note.md -p "Summarize the note." --temp 0`, Purpose: "ask about a file; greedy is best for facts"},
			{Line: `llmrun run -m model.gguf --raw -p "Once upon a time" -n 100 --seed 7`, Purpose: "continue a text; the same seed gives the same text again"},
			{Line: `llmrun run -p "What is 3 + 4?" --samples 8 --vote "[0-9]+"`, Purpose: "the number that most of 8 answers agree on"},
			{Line: `llmrun run -f mail.txt -p "Extract the date and the names." --schema fields.json`, Purpose: "JSON with exactly these fields"},
			{Line: `llmrun run --notes ~/vault -p "When is the report due?"`, Purpose: "an answer from notes, with the names of their files"},
			{Line: `git diff | llmrun run -m model.gguf --system "Explain this change." --json`, Purpose: "answer standard input, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			r := &runFlags{}
			r.add(f)
			return r.run
		},
	}
}

// runFlags are the flags of run.
type runFlags struct {
	model       modelFlags
	prompt      promptFlags
	generation  generationFlags
	samples     sampleFlags
	constraint  constraintFlags
	held        llmrun.GenerateOptions // what constraint has read
	system      *string                // nil: no system message
	ids         string                 // "": the prompt is text
	raw         bool
	specialText bool // with raw: text such as <|im_end|> becomes the special token
	json        bool
	logProbs    *int // nil: none
	quiet       bool
	notes       string          // directory; "": the prompt is all
	vault       vaultFlags      // how it is opened
	question    *notes.Question // with the passages of notes
}

func (r *runFlags) add(f *cli.FlagSet) {
	f.Everyday(
		everydayModel,
		"p", "f: read the prompt from FILE, or - for standard input; the text of -p follows",
		"n: at most N new tokens", "system: the system message",
		"temp: temperature; 0 always takes the most likely token", "seed: the same seed gives the same text",
		"ram: memory limit, such as 1.5GiB; weights that do not fit are read from flash, and the answer is the same",
		"ctx: tokens of context, such as 8K", "session: continue the session of that name, or start it",
		"json: print one JSON object", "stats: report the use of memory and flash", "q: print only the answer",
	)
	r.model.addAnswering(f)
	f.Group("Prompt")
	r.prompt.add(f)
	r.prompt.ram = &r.model.ram
	f.OptionalText(&r.system, "system", "TEXT", "the system message before the prompt")
	r.model.addSession(f)
	f.Toggle(&r.raw, "raw", "continue the text exactly as it is, without the chat template")
	f.Toggle(&r.specialText, "parse-special", "with --raw: text such as <|im_end|> becomes the special token instead of plain text")
	f.Text(&r.notes, "notes", "DIR", "answer from the notes in this directory: passages that match the prompt come before it, and the files of those that the answer comes from are named behind it; llmrun search --help says which files are notes")
	r.vault = vaultFlags{cache: r.model.cache, ram: &r.model.ram, encoderFlag: "--encoder"}
	f.Text(&r.vault.encoder, "encoder", "MODEL", "with --notes: the embedding model that finds passages by their meaning too; default: the one that the index remembers (llmrun index DIR -m MODEL)")
	r.vault.addReranker(f, "with --notes: ")
	f.Text(&r.ids, "ids", "LIST", "continue these token ids, such as 1,2,3; - reads them from standard input")
	r.generation.add(f)
	r.samples.add(f)
	f.Group("Output")
	r.constraint.add(f)
	f.Toggle(&r.json, "json", "print one JSON object when done")
	f.Toggle(&r.model.measure, "stats", "also report the use of memory and flash, and the predicted and the measured speed; with --json under stats")
	f.OptionalCount(&r.logProbs, "logprobs", "with --json: the logarithm of the probability of each token, and the N most likely tokens in its place, before penalties and temperature", 0, 100)
	f.Toggle(&r.quiet, "q quiet", "print no timings and no progress on standard error")
}

// check refuses flags that contradict each other.
func (r *runFlags) check() error {
	switch {
	case r.ids != "" && (r.prompt.given() || r.system != nil || r.raw):
		return cli.Usagef("--ids is the whole prompt: leave out -p, -f, --system and --raw")
	case r.notes != "" && (r.ids != "" || r.raw || r.samples.several()):
		return cli.Usagef("--notes answers a prompt once: leave out --ids, --raw, --samples and --beam")
	case r.notes == "" && (r.vault.encoder != "" || r.vault.reranker != ""):
		return cli.Usagef("--encoder and --rerank find passages of notes: give --notes DIR")
	case r.raw && r.system != nil:
		return cli.Usagef("--system needs the chat template that --raw leaves out")
	case r.specialText && !r.raw:
		return cli.Usagef("--parse-special needs --raw")
	case r.generation.thinking.level != "" && (r.ids != "" || r.raw):
		return cli.Usagef("--think needs the chat template that --raw and --ids leave out")
	case r.logProbs != nil && !r.json:
		return cli.Usagef("--logprobs needs --json")
	}
	if err := errors.Join(r.generation.checkOverflow(), r.constraint.check(&r.generation)); err != nil {
		return err
	}
	return r.samples.check()
}

// run checks the flags, loads the model and answers.
func (r *runFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	// The prompt is read before the model, which may take minutes to load: a wrong file name
	// fails at once.
	prompt, err := r.readPrompt(s)
	if err != nil {
		return r.model.stateMinimum(ctx, s, r.promptOverflow(), err)
	}
	if r.held, err = r.constraint.read(s, r.prompt.ram); err != nil {
		return err
	}
	if r.quiet {
		s.ErrTerminal, s.Quiet = false, true // no progress bars either
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	if prompt.text, err = r.askNotes(ctx, s, prompt.text); err != nil {
		return cli.Interruption(ctx, err)
	}
	r.expectPrompt(&prompt)
	r.model.reward = r.samples.reward
	engine, err := r.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	session, err := r.model.openSession(s, engine, false)
	if err != nil {
		return err
	}
	defer session.Close()
	if prompt.text, err = r.fitNotes(engine, session, prompt.text); err != nil {
		return err
	}
	err = r.generate(ctx, s, engine, session, prompt)
	return errors.Join(err, engine.Close()) // Close writes the trace
}

// A runPrompt is the prompt: token ids, or text.
type runPrompt struct {
	ids  []int32 // if not nil, text is unused
	text string
	said []llmrun.Message // of the session, before it
}

func (r *runFlags) readPrompt(s *cli.Streams) (runPrompt, error) {
	if r.ids == "" {
		text, err := r.prompt.read(s, r.raw)
		return runPrompt{text: text}, err
	}
	ids, err := readIDs(s, r.ids, r.prompt.ram)
	return runPrompt{ids: ids}, err
}

// promptOverflow is what happens to a long prompt as far as it is known before the session is open.
func (r *runFlags) promptOverflow() llmrun.Overflow {
	return r.generation.promptOverflow(r.model.session == "")
}

// expectPrompt tells the plan what the prompt needs.
func (r *runFlags) expectPrompt(prompt *runPrompt) {
	texts := []string{prompt.text}
	if r.system != nil {
		texts = append(texts, *r.system)
	}
	r.model.prompt.expect(r.promptOverflow(), len(prompt.ids), texts...)
	r.model.prompt.answer = cmp.Or(r.generation.maxTokens, llmrun.WholeContext)
}

// generate answers the prompt, saves a named session and reports. An answer that a signal
// interrupts is printed up to that point.
func (r *runFlags) generate(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt) error {
	options, err := r.generation.options(engine)
	if err != nil {
		return err
	}
	options.Schema, options.Regexp, options.Grammar = r.held.Schema, r.held.Regexp, r.held.Grammar
	options.StopRepeats = options.StopRepeats && !r.raw && prompt.ids == nil && r.held.Schema+r.held.Regexp+r.held.Grammar == ""
	options.ParseSpecial, options.KeepPrompt = r.specialText, r.model.session != ""
	options.WholePrompt = r.generation.promptOverflow(isFirst(session, session.Messages())) == llmrun.OverflowStop
	prompt = r.follow(s, session.Messages(), prompt)
	options.KeepText = r.keptText(prompt.said, prompt.text)
	progress := newPromptProgress(s, &options)
	defer progress.finish()
	if r.logProbs != nil {
		options.LogProbs, options.TopLogProbs = true, *r.logProbs
	}
	if r.samples.several() {
		return r.generateSamples(ctx, s, engine, session, prompt, options, progress)
	}
	noteSlides(s, &options)
	pieces, err := r.pieces(ctx, engine, session, prompt, options)
	if err != nil {
		return err
	}

	var got answer
	if r.logProbs != nil {
		got.tokens = newKeptTokens(engine)
		defer got.tokens.release()
	}
	text := newKeptText(engine, r.json)
	defer text.room.Close()
	printer := r.generation.thinking.printer(s)
	err = got.collect(pieces, func(piece *llmrun.Piece) error {
		progress.finish()
		if err := text.add(piece); err != nil {
			return err
		}
		if !r.json {
			printer.print(piece)
		}
		return s.Out.Failure()
	})
	printer.endThinking()
	err = cli.Interruption(ctx, err)
	if engine.Tokenizer() == nil && !r.json {
		fmt.Fprint(s.Out, formatIDs(got.ids)) // without a tokenizer there is no text
	}
	s.Out.EndLine()
	r.printSources(s, got.Text())
	got.explainEmpty(s.Note)
	if session.Stats().StopReason == llmrun.StopRepeats {
		s.Note(loopText)
	}
	unsaved := r.save(session) // before the report, which includes the bytes written
	switch {
	case err == nil || cli.WasStopped(err):
		if isFull(err, session) {
			s.Note(r.model.contextFullMessage(engine, session, options.WholePrompt, err))
		}
		err = errors.Join(err, r.report(s, &got, engine, session.Stats(), options.Sampling.Seed, got.addLogProbs(engine)))
	case isFull(err, session):
		err = fmt.Errorf("%w; %s", err, r.model.contextFullMessage(engine, session, options.WholePrompt, err))
	}
	if cli.WasStopped(err) && len(got.ids) == 0 {
		r.noteInterrupted(s, progress, session.Stats(), unsaved)
	}
	return errors.Join(err, unsaved)
}

// save saves a named session, and waits for what is being written.
func (r *runFlags) save(session *llmrun.Session) error {
	err := session.Flush()
	if r.model.session != "" && session.Len() > 0 {
		err = errors.Join(err, session.Save(""))
	}
	return err
}

// report prints the timings and the JSON object, to which add adds fields. seed is nil for greedy decoding.
func (r *runFlags) report(s *cli.Streams, got *answer, engine *llmrun.Engine, stats llmrun.Stats, seed *uint64, add func(*runReport)) error {
	var memory *memoryStats
	if r.model.measure {
		memory = newMemoryStats(engine, stats)
	}
	if !r.quiet {
		s.Say(formatStats(stats, seed))
		if memory != nil {
			s.Say(fmt.Sprintf("passes: %d after the prompt, %.2f tokens each", stats.Passes, stats.TokensPerPass()))
			memory.print(s.Err)
		}
	}
	if !r.json {
		return nil
	}
	report := newRunReport(got, stats, seed)
	report.Stats, report.Sources = memory, r.sources(got.Text())
	add(&report)
	return s.Out.WriteJSONLists(report, "logprobs", report.lists()...)
}

// pieces starts the generation. A model without a chat template continues the prompt; with
// --system it uses the library's simple template.
func (r *runFlags) pieces(ctx context.Context, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt, options llmrun.GenerateOptions) (iter.Seq2[llmrun.Piece, error], error) {
	p, err := r.libraryPrompt(engine, prompt)
	switch {
	case err != nil:
		return nil, err
	case p.IDs != nil:
		return session.GenerateIDs(ctx, p.IDs, options), nil
	case p.Messages != nil:
		return session.ChatMessages(ctx, p.Messages, options), nil
	}
	return session.Generate(ctx, p.Text, options), nil
}

// libraryPrompt returns the prompt as the library takes it.
func (r *runFlags) libraryPrompt(engine *llmrun.Engine, prompt runPrompt) (llmrun.Prompt, error) {
	info := engine.Info()
	switch {
	case prompt.ids != nil:
		return llmrun.Prompt{IDs: prompt.ids}, checkIDs("--ids", prompt.ids, info.Vocab)
	case engine.Tokenizer() == nil:
		return llmrun.Prompt{}, needTokenizer(engine)
	case r.raw || !info.HasChatTemplate && r.system == nil:
		return llmrun.Prompt{Text: prompt.text}, nil
	}
	messages := prompt.said
	if r.system != nil {
		messages = withSystem(messages, *r.system)
	}
	return llmrun.Prompt{Messages: llmrun.AddUserMessage(messages, prompt.text)}, nil
}

// finite returns x, or 0 for NaN and infinities, which JSON cannot express.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// formatStats formats the timings of a generation as one line. A generation without tokens
// has no rates.
func formatStats(stats llmrun.Stats, seed *uint64) string {
	var line strings.Builder
	fmt.Fprintf(&line, "prompt %d tokens", stats.PromptTokens)
	switch {
	case stats.RestoredTokens > 0:
		fmt.Fprintf(&line, " (%d reused, %d of them from flash)", stats.ReusedTokens, stats.RestoredTokens)
	case stats.ReusedTokens > 0:
		fmt.Fprintf(&line, " (%d reused)", stats.ReusedTokens)
	}
	if stats.GeneratedTokens == 0 {
		return line.String() + "; no answer; " + stopText(stats.StopReason)
	}
	fmt.Fprintf(&line, ", %.0f tok/s; first token after %s; answer %d tokens, %.1f tok/s; %s",
		finite(stats.PrefillTokPerS()), stats.FirstToken.Round(time.Millisecond),
		stats.GeneratedTokens, finite(stats.DecodeTokPerS()), stopText(stats.StopReason))
	if stats.StopReason == llmrun.StopLength && stats.ShortestTokens > 0 {
		fmt.Fprintf(&line, ", before it was whole: the shortest one takes up to %d", stats.ShortestTokens)
	}
	line.WriteString(draftText(stats))
	if stats.Slides > 0 {
		fmt.Fprintf(&line, "; %d tokens forgotten in %d slides", stats.ForgottenTokens, stats.Slides)
	}
	if seed != nil {
		fmt.Fprintf(&line, "; seed %d", *seed)
	}
	return line.String()
}

// stopText describes a stop reason.
func stopText(reason llmrun.StopReason) string {
	switch reason {
	case llmrun.StopEOS:
		return "the model ended it"
	case llmrun.StopString:
		return "ended at a --stop text"
	case llmrun.StopLength:
		return "ended at -n tokens"
	case llmrun.StopContext:
		return "ended because the context is full"
	case llmrun.StopRepeats:
		return "stopped because it repeats itself"
	case llmrun.StopCancelled:
		return "interrupted"
	}
	return "ended: " + string(reason)
}
