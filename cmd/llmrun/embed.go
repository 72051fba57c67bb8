package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func embedCommand() *cli.Command {
	return &cli.Command{
		Name:     "embed",
		Synopsis: "-m MODEL (-f FILE | --ids LIST | TEXT...) [flags]",
		Summary:  "print vectors that describe texts",
		About: `Prints a vector for each text, in which similar texts have similar directions: of each TEXT, or of the content of each file. The model's own files say how the states of its tokens become a vector, which layers follow, and what is put before a text; a model that says nothing gives the mean of its tokens' states, or that of the last token if it generates texts. A text that is longer than the model reads is cut, which a note reports.

--json prints {"embeddings":[[...],...],"tokens":N}: the vectors in the order of the texts, with enough digits to restore the same 32-bit floats, and the number of tokens read.`,
		Examples: []cli.Example{
			{Line: "llmrun embed -m bge-small \"a note about bees\" \"a recipe\"", Purpose: "the vectors of two texts"},
			{Line: "llmrun embed -m nomic.gguf -f note.md --prefix \"search_document: \" --json", Purpose: "a file, with the prefix that the model's authors name, for a script"},
			{Line: "llmrun embed -m model --ids 101,2054,102 --pooling mean --no-normalize --json", Purpose: "token ids, to compare with another program"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			e := &embedFlags{}
			e.texts.add(f)
			f.Group("Vectors")
			f.Choice(&e.pooling, "pooling", "HOW", "mean, cls (the first token), last, or none (a vector for each token) of the network's states alone, without the layers behind it; default: the model's own way", "mean", "cls", "last", "none")
			f.Toggle(&e.raw, "no-normalize", "do not scale vectors to length 1")
			f.Count(&e.dimensions, "dimensions", "D", "keep the first D elements, for models that are trained for it; default: all", 1, math.MaxInt32)
			f.OptionalText(&e.prefix, "prefix", "TEXT", "put TEXT before each text, instead of what the model's files name")
			f.Group("Output")
			f.Toggle(&e.json, "json", "print one JSON object")
			return e.run
		},
	}
}

// textFlags select a model that describes texts, and the texts.
type textFlags struct {
	model modelFlags
	files []string
	ids   string
}

// textsPart is the part of --ram that all texts may take: they stay in memory while they are read.
const textsPart = 4

func (t *textFlags) add(f *cli.FlagSet) {
	t.model.describes = true
	t.model.addModel(f)
	t.model.addThreads(f)
	t.model.addQuant(f)
	t.model.addKV(f)
	t.model.addExact(f)
	t.model.addContext(f)
	t.model.addRAM(f)
	t.model.addCache(f)
	f.Group("Texts")
	f.List(&t.files, "f file", "FILE", "a text; - for standard input; may be given several times")
	f.Text(&t.ids, "ids", "LIST", "token ids of one text, such as 1,2,3, to which nothing is added; - reads them from standard input")
}

// read returns the texts, or the ids of one.
func (t *textFlags) read(s *cli.Streams, args []string) (texts []string, ids []int32, err error) {
	if t.ids != "" {
		if len(args)+len(t.files) > 0 {
			return nil, nil, cli.Usagef("--ids is a text by itself: leave out -f and other texts")
		}
		ids, err = readIDs(s, t.ids, &t.model.ram)
		return nil, ids, err
	}
	texts = append(texts, args...)
	longest, held := 0, int64(0)
	for _, name := range t.files {
		text, err := readBehind(s, name, &t.model.ram, &longPrompt{flag: "-f", parts: textsPart, beside: held})
		if err != nil {
			return nil, nil, err
		}
		texts, held = append(texts, trimLineEnd(text)), held+int64(len(text))
	}
	if len(texts) == 0 {
		return nil, nil, cli.Usagef("there are no texts: give -f FILE, --ids LIST, or texts as arguments")
	}
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	t.model.prompt.memory = llmrun.PromptMemory(int64(longest))
	return texts, nil, nil
}

// describe opens the model and calls do with it.
func (t *textFlags) describe(ctx context.Context, s *cli.Streams, do func(ctx context.Context, engine *llmrun.Engine) error) error {
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	engine, err := t.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := do(ctx, engine); err != nil {
		return cli.Interruption(ctx, err)
	}
	return engine.Close() // which ends the limit of Go's heap
}

// noteTruncated reports texts that were cut.
func noteTruncated(s *cli.Streams, engine *llmrun.Engine, stats *llmrun.EmbedStats) {
	if stats.Truncated > 0 {
		s.Note(fmt.Sprintf("%s cut to %d tokens, the most that is read", wasWere(stats.Truncated, "text"), engine.MaxTextTokens()))
	}
}

// wasWere counts things in the past.
func wasWere(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return fmt.Sprintf("%d %ss were", n, what)
}

// embedFlags are the flags of embed.
type embedFlags struct {
	texts      textFlags
	pooling    string
	raw        bool
	dimensions int
	prefix     *string
	json       bool
}

func (e *embedFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	texts, ids, err := e.texts.read(s, args)
	if err != nil {
		return err
	}
	if ids != nil && e.prefix != nil {
		return cli.Usagef("--prefix is for texts: --ids has the tokens of all")
	}
	return e.texts.describe(ctx, s, func(ctx context.Context, engine *llmrun.Engine) error {
		var stats llmrun.EmbedStats
		room := engine.NewRoom("a list of vectors")
		defer room.Close()
		o := llmrun.EmbedOptions{Room: room, Pooling: e.pooling, Raw: e.raw, Dimensions: e.dimensions, Prefix: e.prefix, Stats: &stats}
		var vectors [][]float32
		if ids != nil {
			vectors, err = engine.EmbedIDs(ctx, [][]int32{ids}, o)
		} else {
			vectors, err = engine.Embed(ctx, texts, o)
		}
		if errors.Is(err, llmrun.ErrNoTokenizer) {
			err = fmt.Errorf("%w: give --ids", err)
		}
		if err != nil {
			return err
		}
		noteTruncated(s, engine, &stats)
		if e.json {
			return s.Out.WriteRows("{", "embeddings", vectors, fmt.Sprintf(`"tokens":%d`, stats.Tokens))
		}
		for _, v := range vectors {
			showVector(s, v)
		}
		return nil
	})
}

// shownElements is how many elements of a vector are shown without --json.
const shownElements = 8

// showVector prints the beginning of a vector.
func showVector(s *cli.Streams, v []float32) {
	for _, x := range v[:min(len(v), shownElements)] {
		fmt.Fprintf(s.Out, "%9.5f", x)
	}
	if len(v) > shownElements {
		fmt.Fprintf(s.Out, "  … (%d elements; --json prints all)", len(v))
	}
	fmt.Fprintln(s.Out)
}
