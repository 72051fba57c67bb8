package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func rankCommand() *cli.Command {
	return &cli.Command{
		Name:     "rank",
		Synopsis: "-m MODEL -q TEXT (-f FILE | TEXT...) [flags]",
		Summary:  "score how well texts answer a question",
		About: `Scores texts, or the contents of files, with a reranker or a reward model: a model with a head that reads a question and a text together. It prints them with the best first. A model that generates texts and has no head judges with yes or no. A text that is too long beside the question is cut, which a note reports.

--json prints {"scores":[x,...]}, in the order of the texts: the outputs of the head as they are, of a head with two classes how much more the good one gets. Scores of different models are not comparable.`,
		Examples: []cli.Example{
			{Line: "llmrun rank -m bge-reranker -q \"When do bees swarm?\" -f a.md -f b.md", Purpose: "which of two files answers a question"},
			{Line: "llmrun rank -m reranker.gguf -q \"capital of France\" \"Paris is in France.\" \"Bees swarm.\" --json", Purpose: "texts on the command line, for a script"},
			{Line: "llmrun rank -m reward-model --ids 1,2,3 --json", Purpose: "token ids of question and text together, to compare with another program"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			r := &rankFlags{}
			r.texts.add(f)
			f.OptionalText(&r.query, "q query", "TEXT", "the question")
			f.Group("Output")
			f.Toggle(&r.json, "json", "print one JSON object")
			return r.run
		},
	}
}

// rankFlags are the flags of rank.
type rankFlags struct {
	texts textFlags
	query *string
	json  bool
}

// ranked is what rank prints.
type ranked struct {
	Scores []float32 `json:"scores"`
}

func (r *rankFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	texts, ids, err := r.texts.read(s, args)
	switch {
	case err != nil:
		return err
	case ids != nil && r.query != nil:
		return cli.Usagef("-q is for texts: --ids has the tokens of question and text")
	case ids == nil && r.query == nil:
		return cli.Usagef("the question is missing: give -q TEXT")
	}
	return r.texts.describe(ctx, s, func(ctx context.Context, engine *llmrun.Engine) error {
		var stats llmrun.EmbedStats
		var scores []float32
		if ids != nil {
			scores, err = engine.RankIDs(ctx, [][]int32{ids})
		} else {
			scores, err = engine.RankCounted(ctx, *r.query, texts, &stats)
		}
		if err != nil {
			return err
		}
		noteTruncated(s, engine, &stats)
		if r.json {
			return json.NewEncoder(s.Out).Encode(ranked{scores})
		}
		r.show(s, args, scores)
		return nil
	})
}

// show prints texts with the best first.
func (r *rankFlags) show(s *cli.Streams, args []string, scores []float32) {
	names := append(slices.Clone(args), r.texts.files...)
	if len(names) == 0 {
		names = []string{"the tokens"}
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, i := range order {
		fmt.Fprintf(s.Out, "%10.4f  %s\n", scores[i], cli.VisibleLine(names[i]))
	}
}
