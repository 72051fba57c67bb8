package main

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func perplexityCommand() *cli.Command {
	return &cli.Command{
		Name:     "perplexity",
		Synopsis: "[-m MODEL] (-f FILE | --ids-file FILE) [--ctx N] [flags]",
		Summary:  "measure how well a model predicts a text",
		About: `Prints the mean negative log-likelihood of a text's tokens and the perplexity, its exponential: lower is better. The text is cut into windows of --ctx tokens that do not overlap; every token of a window but the first is scored. No begin token is added.

--json prints {"tokens":N,"scored":N,"mean_nll":x,"ppl":y}: the tokens of the text, and the number of scored tokens. With --w8a8 there is also "shadow", the use of the outlier path: tokens (input rows that have the path) and marked (those with outliers), outliers (elements), hot (uses of columns in memory), fetched (columns from flash) and their read_bytes, and resident_bytes (columns in memory) of all_bytes.`,
		Examples: []cli.Example{
			{Line: "llmrun perplexity -f book.txt --ctx 2048", Purpose: defaultModel + " on a text"},
			{Line: "llmrun perplexity -m model.gguf -f book.txt --ctx 2048 --json", Purpose: "another model, for a script"},
			{Line: "llmrun perplexity -m model.gguf --ids-file tokens.txt --ctx 512", Purpose: "tokens from another program"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &perplexityFlags{}
			p.model.addScoring(f)
			f.Group("Text")
			f.Text(&p.file, "f file", "FILE", "the text; - for standard input")
			f.Text(&p.idsFile, "ids-file", "FILE", "token ids instead, separated by commas or white space")
			f.Count(&p.window, "ctx", "N", "tokens in a window; default: 2048, or the model's context if that is shorter", 2, math.MaxInt32)
			f.Group("Output")
			f.Toggle(&p.json, "json", "print one JSON object")
			return p.run
		},
	}
}

// perplexityFlags are the flags of perplexity.
type perplexityFlags struct {
	model   modelFlags
	file    string // text, or
	idsFile string // token ids
	window  int    // 0: the library's choice
	json    bool
}

// run reads the text before it loads the model, so that a wrong file name fails at once.
func (p *perplexityFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if (p.file == "") == (p.idsFile == "") {
		return cli.Usagef("give either -f or --ids-file")
	}
	text, err := p.read(s)
	if err != nil {
		return p.model.stateMinimum(ctx, s, llmrun.OverflowSlide, err) // windows need no longer context
	}
	if p.file != "" {
		p.model.prompt.memory = llmrun.PromptMemory(int64(len(text)))
	}
	if p.model.ram.bytes > 0 { // the window must not depend on the budget
		p.model.context = cmp.Or(p.window, defaultWindow)
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	engine, err := p.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	ids, err := p.tokens(engine, text)
	if err != nil {
		return err
	}

	bar := cli.NewMeter(s, "scoring", cli.FormatTokens)
	defer bar.Finish()
	result, err := engine.Perplexity(ctx, ids, llmrun.PerplexityOptions{
		Context:  p.window,
		Progress: func(done, total int) { bar.Update(int64(done), int64(total)) },
	})
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	bar.Finish()
	report := perplexityReport{Perplexity: result}
	if options := p.model.w8a8; options.on && options.outlierPath != "off" {
		use := engine.OutlierUse()
		report.OutlierPath = &use
	}
	if err := p.print(s, report); err != nil {
		return err
	}
	return engine.Close() // Close writes the trace
}

// defaultWindow is the window without --ctx, in tokens.
const defaultWindow = 2048

// perplexityReport is the JSON object of --json.
type perplexityReport struct {
	llmrun.Perplexity
	OutlierPath *llmrun.OutlierUse `json:"shadow,omitempty"` // with --w8a8
}

// read returns the contents of the file that the flags name.
func (p *perplexityFlags) read(s *cli.Streams) (string, error) {
	if p.file != "" {
		return readPart(s, "-f", p.file, &p.model.ram, promptPart)
	}
	return readPart(s, "--ids-file", p.idsFile, &p.model.ram, idsPart)
}

// tokens returns the tokens to score: those of the text, or the listed ids.
func (p *perplexityFlags) tokens(engine *llmrun.Engine, text string) ([]int32, error) {
	if p.file != "" {
		if engine.Tokenizer() == nil {
			return nil, fmt.Errorf("%w: give token ids in --ids-file", llmrun.ErrNoTokenizer)
		}
		return engine.EncodeText(text, llmrun.EncodeOptions{})
	}
	ids, err := parseIDs(text)
	if err != nil {
		return nil, fmt.Errorf("--ids-file %s: %w", p.idsFile, err)
	}
	return ids, checkIDs("--ids-file", ids, engine.Info().Vocab)
}

// print shows the result to a person or, with --json, to a program.
func (p *perplexityFlags) print(s *cli.Streams, result perplexityReport) error {
	if !p.json {
		fmt.Fprintf(s.Out, "perplexity %.4f (mean negative log-likelihood %.6f; %d tokens, %d of them scored)\n",
			result.PPL, result.MeanNLL, result.Tokens, result.Scored)
		if u := result.OutlierPath; u != nil {
			fmt.Fprintf(s.Out, "outlier path: %.1f %% of the rows have outliers; %s of %s of columns are in memory, used %d times; %d columns came from flash (%s)\n",
				100*float64(u.Marked)/float64(max(1, u.Tokens)), cli.FormatBytes(u.Resident), cli.FormatBytes(u.All), u.Hot, u.Fetched, cli.FormatBytes(u.Read))
		}
		return nil
	}
	if math.IsInf(result.PPL, 0) {
		// JSON has no infinity; the error gives the mean.
		return fmt.Errorf("the perplexity is too large for a JSON number (mean negative log-likelihood %g)", result.MeanNLL)
	}
	return s.Out.WriteJSON(result)
}
