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
)

// shownLogits is how many logits of a position are shown to a person.
const shownLogits = 10

func logitsCommand() *command {
	return &command{
		name:     "logits",
		synopsis: "[-m MODEL] --ids LIST [--at last|all|0,4] [flags]",
		summary:  "show what a model predicts after given tokens",
		about: `Feeds token ids to the model, with nothing added, and prints the logits of the tokens that may follow: the ten highest, or all of the vocabulary with --json. Position 0 is what follows the first token.

--json prints {"positions":[...],"logits":[[...],...]} with as many digits as it takes to give the same 32-bit numbers again.`,
		examples: []example{
			{"llmrun logits --ids 4972,15", "the likeliest tokens after two tokens"},
			{"llmrun logits --ids 4972,15,950 --at 0,2", "after the first and the third of three tokens"},
			{"llmrun logits -m model.gguf --ids 1,2,3 --at all --json > logits.json", "all logits at all positions, to compare with another engine"},
		},
		prepare: func(f *flagSet) action {
			l := &logitsFlags{at: "last"}
			l.model.addScoring(f)
			f.group("Positions")
			f.text(&l.ids, "ids", "LIST", "token ids, such as 1,2,3; - reads them from standard input")
			f.text(&l.at, "at", "WHERE", "last (the default), all, or positions such as 0,4")
			f.group("Output")
			f.toggle(&l.json, "json", "print all logits as one JSON object")
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
func (l *logitsFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	ids, err := readIDs(s, l.ids)
	if err != nil {
		return err
	}
	positions, err := parsePositions(l.at, len(ids))
	if err != nil {
		return usagef("--at: %v", err)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	engine, err := l.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := checkIDs("--ids", ids, engine.Info().Vocab); err != nil {
		return err
	}
	logits, err := engine.Logits(ctx, ids, positions)
	if err = errors.Join(err, engine.Close()); err != nil { // which writes the trace
		return interruption(ctx, err)
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
			return nil, fmt.Errorf("there is no position %d: the ids have 0 to %d", position, length-1)
		}
		positions = append(positions, position)
	}
	return positions, nil
}

// writeLogits prints the JSON object.
func writeLogits(s *streams, positions []int, logits [][]float32) error { // logits: [len(positions), vocab]
	head, err := json.Marshal(positions)
	if err != nil {
		return err
	}
	return s.out.writeRows(fmt.Sprintf(`{"positions":%s,`, head), "logits", logits)
}

// showLogits prints the highest logits of each position.
func showLogits(s *streams, tokenizer *llmrun.Tokenizer, positions []int, logits [][]float32) { // logits: [len(positions), vocab]
	for i, row := range logits {
		fmt.Fprintf(s.out, "after position %d\n", positions[i])
		for _, id := range highest(row, shownLogits) {
			spelling := "" // a model without a tokenizer has ids alone
			if tokenizer != nil {
				piece, _ := tokenizer.Piece(int32(id))
				spelling = fmt.Sprintf("  %q", piece)
			}
			fmt.Fprintf(s.out, "  %10.4f %7d%s\n", row[id], id, spelling)
		}
	}
}

// highest returns the indices of the n highest values of row, highest first and
// the lower index first among equals.
func highest(row []float32, n int) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
	return order[:min(n, len(order))]
}
