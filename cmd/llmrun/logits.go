package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// shownLogits is the number of logits in the table of a position.
const shownLogits = 10

func logitsCommand() *cli.Command {
	return &cli.Command{
		Name:     "logits",
		Synopsis: "[-m MODEL] --ids LIST [--at last|all|0,4] [flags]",
		Summary:  "print the logits after given tokens",
		About: `Runs the model on token ids, without adding tokens, and prints the logits of the next token: the ten highest, or the whole vocabulary with --json. Position 0 is the prediction after the first token.

--json prints {"positions":[...],"logits":[[...],...]} with enough digits to restore the same 32-bit floats.`,
		Examples: []cli.Example{
			{Line: "llmrun logits --ids 4972,15", Purpose: "the most likely tokens after two tokens"},
			{Line: "llmrun logits --ids 4972,15,950 --at 0,2", Purpose: "after the first and the third of three tokens"},
			{Line: "llmrun logits -m model.gguf --ids 1,2,3 --at all --json > logits.json", Purpose: "all logits at all positions, to compare with another engine"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			l := &logitsFlags{at: "last"}
			l.model.addScoring(f)
			f.Group("Positions")
			f.Text(&l.ids, "ids", "LIST", "token ids, such as 1,2,3; - reads them from standard input")
			f.Text(&l.at, "at", "WHERE", "last (the default), all, or positions such as 0,4")
			f.Group("Output")
			f.Toggle(&l.json, "json", "print all logits as one JSON object")
			return l.run
		},
	}
}

// logitsFlags are the flags of logits.
type logitsFlags struct {
	model modelFlags
	ids   string
	at    string // last, all, or positions
	json  bool
}

// run checks ids and positions, loads the model and prints its logits.
func (l *logitsFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ids, err := readIDs(s, l.ids, &l.model.ram)
	if err != nil {
		return l.stateMinimum(ctx, s, err)
	}
	positions, err := parsePositions(l.at, len(ids))
	if err != nil {
		return cli.Usagef("--at: %v", err)
	}
	if l.model.ram.bytes > 0 {
		l.model.context = len(ids)
	}
	l.model.prompt.logitRows = len(positions)
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	engine, err := l.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := checkIDs("--ids", ids, engine.Info().Vocab); err != nil {
		return err
	}
	err = l.print(ctx, s, engine, ids, positions)
	return errors.Join(err, engine.Close()) // Close writes the trace, and ends the limit of Go's heap
}

// stateMinimum is that of the model, for the positions of a list that is too long to be read.
func (l *logitsFlags) stateMinimum(ctx context.Context, s *cli.Streams, err error) error {
	var long *longPrompt
	if errors.As(err, &long) && long.bytes <= cli.MaxInput {
		if l.model.context = long.tokens; l.at == "all" {
			l.model.prompt.logitRows = long.tokens
		}
	}
	return l.model.stateMinimum(ctx, s, llmrun.OverflowStop, err)
}

// print computes the logits and prints them while the engine's budget limits Go's heap.
func (l *logitsFlags) print(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, ids []int32, positions []int) error {
	logits, err := engine.Logits(ctx, ids, positions)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if l.json {
		return writeLogits(s, positions, logits)
	}
	showLogits(s, engine.Tokenizer(), positions, logits)
	return nil
}

// parsePositions reads the value of --at for a sequence of length tokens.
func parsePositions(at string, length int) ([]int, error) {
	switch at {
	case "last":
		return []int{length - 1}, nil
	case "all":
		positions := make([]int, length)
		for i := range positions {
			positions[i] = i
		}
		return positions, nil
	}
	var positions []int
	for field := range strings.SplitSeq(at, ",") {
		position, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("must be last, all, or positions such as 0,4, not %q", at)
		}
		if position < 0 || position >= length {
			return nil, fmt.Errorf("must be positions from 0 to %[2]d, the last of the ids, not %[1]d", position, length-1)
		}
		positions = append(positions, position)
	}
	return positions, nil
}

// writeLogits prints the JSON object.
func writeLogits(s *cli.Streams, positions []int, logits [][]float32) error { // logits: [len(positions), vocab]
	head, err := json.Marshal(positions)
	if err != nil {
		return err
	}
	return s.Out.WriteRows(fmt.Sprintf(`{"positions":%s,`, head), "logits", logits)
}

// showLogits prints the highest logits of each position. It drops each row that it has printed.
func showLogits(s *cli.Streams, tokenizer *llmrun.Tokenizer, positions []int, logits [][]float32) { // logits: [len(positions), vocab]
	for i, row := range logits {
		fmt.Fprintf(s.Out, "after position %d\n", positions[i])
		for _, id := range highest(row, shownLogits) {
			spelling := "" // a model without a tokenizer has only ids
			if tokenizer != nil {
				piece, _ := tokenizer.Piece(int32(id))
				spelling = fmt.Sprintf("  %q", piece)
			}
			fmt.Fprintf(s.Out, "  %10.4f %7d%s\n", row[id], id, spelling)
		}
		logits[i] = nil
	}
}

// highest returns the indices of the n highest values of row, the highest first. Among equal
// values the lower index comes first. It takes memory for n indices only.
func highest(row []float32, n int) []int {
	n = min(n, len(row))
	top := make([]int, 0, n+1)
	for id, x := range row {
		if len(top) == n && (n == 0 || cmp.Compare(x, row[top[n-1]]) <= 0) {
			continue
		}
		at := len(top)
		for at > 0 && cmp.Compare(x, row[top[at-1]]) > 0 {
			at--
		}
		top = slices.Insert(top, at, id)
		top = top[:min(n, len(top))]
	}
	return top
}
