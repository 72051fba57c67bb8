package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:     "run",
		Synopsis: "[-m MODEL] [-p TEXT | -f FILE | --ids LIST] [flags]",
		Summary:  "answer one prompt",
		About: `Answers a prompt and prints the answer as it comes. The prompt is -p, or a file, or what is piped in. If the model has a chat template, the prompt is sent as a user's message; --raw continues the text as it stands instead.

Timings go to standard error. With --json one object is printed at the end: ids and text of the answer, stop_reason, prompt_tokens, generated_tokens, reused_tokens (of the prompt, that were not read again), recalled_tokens (of these, that came from flash), kept_bytes (written there), prefill_seconds, decode_seconds, first_token_seconds, prefill_tok_per_s, decode_tok_per_s, slides and forgotten_tokens (see --overflow), seed unless --temp is 0, and stats if they are asked for.`,
		Brief: `Answers a prompt and prints the answer as it comes. The prompt is -p, a file, or what is piped in.`,
		Examples: []cli.Example{
			{Line: `llmrun run -p "Tell me a story about a brave fox named Ruby."`, Purpose: "a story from the bundled model"},
			{Line: `llmrun run -f note.md -p "Summarize the note." --temp 0`, Purpose: "ask about a file; greedy is best for facts"},
			{Line: `llmrun run -m model.gguf --raw -p "Once upon a time" -n 100 --seed 7`, Purpose: "continue a text, and do so again with the same seed"},
			{Line: `git diff | llmrun run -m model.gguf --system "Explain this change." --json`, Purpose: "answer what is piped in, for a script"},
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
	system      *string // nil: no system message
	ids         string  // "": the prompt is text
	raw         bool
	specialText bool // spelled special tokens count, with raw
	json        bool
	quiet       bool
}

func (r *runFlags) add(f *cli.FlagSet) {
	f.Everyday(
		"m: model: a GGUF file, Hugging Face directory, or pack; without it, the bundled model",
		"p", "f: read the prompt from FILE, - for standard input; -p follows it",
		"n: at most N new tokens", "system: the system message",
		"temp: temperature; 0 always takes the likeliest token", "seed: the same seed gives the same text",
		"ram: most memory to use, such as 1.5GiB; what does not fit is read from flash, and the answer is the same",
		"ctx: tokens of context, such as 8K", "session: continue the session of that name, or begin it",
		"json: print one JSON object", "stats: add how memory and flash were used", "q: only the answer",
	)
	r.model.addAnswering(f)
	f.Group("Prompt")
	r.prompt.add(f)
	f.OptionalText(&r.system, "system", "TEXT", "the system message before the prompt")
	r.model.addSession(f)
	f.Toggle(&r.raw, "raw", "no chat template: continue the text exactly as it is")
	f.Toggle(&r.specialText, "parse-special", "with --raw: special tokens that the text spells, such as <|im_end|>, become these tokens instead of plain text")
	f.Text(&r.ids, "ids", "LIST", "token ids, such as 1,2,3, to continue as they are; - reads them from standard input")
	r.generation.add(f)
	f.Group("Output")
	f.Toggle(&r.json, "json", "print one JSON object when done")
	f.Toggle(&r.model.measure, "stats", "also tell how memory and flash were used, and the speed that was predicted against the one measured; with --json under stats")
	f.Toggle(&r.quiet, "q quiet", "no timings and no progress on standard error")
}

// check refuses flags that contradict each other.
func (r *runFlags) check() error {
	switch {
	case r.ids != "" && (r.prompt.given() || r.system != nil || r.raw):
		return cli.Usagef("--ids is the whole prompt: it goes with none of -p, -f, --system and --raw")
	case r.raw && r.system != nil:
		return cli.Usagef("--system needs the chat template that --raw leaves out")
	case r.specialText && !r.raw:
		return cli.Usagef("--parse-special needs --raw")
	}
	return nil
}

// run checks what can be checked without the model, loads it and answers.
func (r *runFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	// Before loading, which may take minutes: a wrong file name shows at once.
	prompt, err := r.readPrompt(s)
	if err != nil {
		return err
	}
	if r.quiet {
		s.ErrTerminal, s.Quiet = false, true // nobody watches: no progress either
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	engine, err := r.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	session, err := r.model.openSession(s, engine)
	if err != nil {
		return err
	}
	defer session.Close()
	err = r.generate(ctx, s, engine, session, prompt)
	return errors.Join(err, engine.Close()) // which writes the trace
}

// A runPrompt is what the model continues: token ids, or text.
type runPrompt struct {
	ids  []int32 // when not nil, text is unused
	text string
}

func (r *runFlags) readPrompt(s *cli.Streams) (runPrompt, error) {
	if r.ids == "" {
		text, err := r.prompt.read(s, r.raw)
		return runPrompt{text: text}, err
	}
	ids, err := readIDs(s, r.ids)
	return runPrompt{ids: ids}, err
}

// generate answers the prompt, keeps the session if it has a name and reports. An answer that a signal cut short
// is printed as far as it goes.
func (r *runFlags) generate(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt) error {
	options, err := r.generation.options(engine)
	if err != nil {
		return err
	}
	options.ParseSpecial = r.specialText
	bar := cli.NewMeter(s, "reading the prompt", cli.FormatTokens)
	defer bar.Finish()
	noteSlides(s, &options)
	options.OnPrefill = func(done, total int) { bar.Update(int64(done), int64(total)) }
	pieces, err := r.pieces(ctx, engine, session, prompt, options)
	if err != nil {
		return err
	}

	var got answer
	err = got.collect(pieces, func(text string) error {
		bar.Finish()
		if !r.json {
			s.Out.ModelText(text)
		}
		return s.Out.Failure()
	})
	err = cli.Interruption(ctx, err)
	if engine.Tokenizer() == nil && !r.json {
		fmt.Fprint(s.Out, formatIDs(got.ids)) // there is no text to show
	}
	s.Out.EndLine()
	var unsaved error
	if r.model.session != "" && session.Len() > 0 {
		unsaved = session.Save("") // before the report, which says how much that wrote
	}
	switch {
	case err == nil || cli.WasStopped(err):
		if isFull(err, session) {
			s.Note(r.model.contextFullMessage(engine, session))
		}
		err = errors.Join(err, r.report(s, &got, engine, session.Stats(), options.Sampling.Seed))
	case isFull(err, session):
		err = fmt.Errorf("%w; %s", err, r.model.contextFullMessage(engine, session))
	}
	return errors.Join(err, unsaved)
}

// report tells how the generation went. seed is nil when nothing was drawn.
func (r *runFlags) report(s *cli.Streams, got *answer, engine *llmrun.Engine, stats llmrun.Stats, seed *uint64) error {
	var memory *memoryStats
	if r.model.measure {
		memory = newMemoryStats(engine, stats)
	}
	if !r.quiet {
		fmt.Fprintln(s.Err, formatStats(stats, seed))
		if memory != nil {
			memory.print(s.Err)
		}
	}
	if !r.json {
		return nil
	}
	report := newRunReport(got, stats, seed)
	report.Stats = memory
	return s.Out.WriteJSON(report)
}

// pieces starts the generation that the flags ask for. Without a chat template
// a prompt can only be continued; a system message asks for one all the same and
// gets the library's simple one.
func (r *runFlags) pieces(ctx context.Context, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt, options llmrun.GenerateOptions) (iter.Seq2[llmrun.Piece, error], error) {
	info := engine.Info()
	switch {
	case prompt.ids != nil:
		if err := checkIDs("--ids", prompt.ids, info.Vocab); err != nil {
			return nil, err
		}
		return session.GenerateIDs(ctx, prompt.ids, options), nil
	case engine.Tokenizer() == nil:
		return nil, needTokenizer(engine)
	case r.raw || !info.HasChatTemplate && r.system == nil:
		return session.Generate(ctx, prompt.text, options), nil
	}
	messages := session.Messages()
	if r.system != nil {
		messages = withSystem(messages, *r.system)
	}
	messages = append(messages, llmrun.Message{Role: "user", Content: prompt.text})
	return session.ChatMessages(ctx, messages, options), nil
}

// A runReport is what --json prints. Scripts depend on its names.
type runReport struct {
	IDs             []int32 `json:"ids"`
	Text            string  `json:"text"`
	StopReason      string  `json:"stop_reason"`
	PromptTokens    int     `json:"prompt_tokens"`
	GeneratedTokens int     `json:"generated_tokens"`
	PrefillTokPerS  float64 `json:"prefill_tok_per_s"`
	DecodeTokPerS   float64 `json:"decode_tok_per_s"`
	PrefillSeconds  float64 `json:"prefill_seconds"`
	DecodeSeconds   float64 `json:"decode_seconds"`
	FirstTokenAfter float64 `json:"first_token_seconds"`
	ReusedTokens    int     `json:"reused_tokens"`    // of the prompt, that were not read again
	RecalledTokens  int     `json:"recalled_tokens"`  // of those, that came from flash
	KeptBytes       int64   `json:"kept_bytes"`       // that were written to the cache directory
	Slides          int     `json:"slides"`           // times that the context was full
	ForgottenTokens int     `json:"forgotten_tokens"` // because of that
	Seed            *uint64 `json:"seed,omitempty"`   // none when greedy

	Stats *memoryStats `json:"stats,omitempty"` // with --stats
}

func newRunReport(got *answer, stats llmrun.Stats, seed *uint64) runReport {
	ids := got.ids
	if ids == nil {
		ids = []int32{} // an empty list rather than null
	}
	return runReport{
		IDs:             ids,
		Text:            got.text.String(),
		StopReason:      stats.StopReason,
		PromptTokens:    stats.PromptTokens,
		ReusedTokens:    stats.ReusedTokens,
		RecalledTokens:  stats.RestoredTokens,
		GeneratedTokens: stats.GeneratedTokens,
		KeptBytes:       stats.SavedBytes,
		Slides:          stats.Slides,
		ForgottenTokens: stats.ForgottenTokens,
		PrefillTokPerS:  finite(stats.PrefillTokPerS()),
		DecodeTokPerS:   finite(stats.DecodeTokPerS()),
		PrefillSeconds:  stats.Prefill.Seconds(),
		DecodeSeconds:   stats.Decode.Seconds(),
		FirstTokenAfter: stats.FirstToken.Seconds(),
		Seed:            seed,
	}
}

// finite returns x, or 0 for a rate over no time at all, which JSON cannot hold.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// formatStats spells how a generation went. One that ended before its first token
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
	if stats.Slides > 0 {
		fmt.Fprintf(&line, "; %d tokens forgotten in %d slides", stats.ForgottenTokens, stats.Slides)
	}
	if seed != nil {
		fmt.Fprintf(&line, "; seed %d", *seed)
	}
	return line.String()
}

// stopText says why an answer ended.
func stopText(reason string) string {
	switch reason {
	case "eos":
		return "the model ended it"
	case "stop":
		return "ended at a --stop text"
	case "length":
		return "ended at -n tokens"
	case "context":
		return "ended because the context is full"
	case "cancelled":
		return "interrupted"
	}
	return "ended: " + reason
}
