package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:     "inspect",
		Synopsis: "[MODEL | -m MODEL] [--tensors | --tensor NAME --rows LIST] [--json]",
		Summary:  "describe a model without loading it",
		About:    `Prints a model's family, shape, tensor types, tokenizer and context, and the memory that its context needs. --tensors lists the tensors. --tensor with --rows prints dequantized values of one tensor.`,
		Examples: []cli.Example{
			{Line: "llmrun inspect model.gguf", Purpose: "describe it"},
			{Line: "llmrun inspect -m model.gguf --tensors", Purpose: "every tensor with its type, shape and size"},
			{Line: "llmrun inspect -m model.gguf --tensor token_embd.weight --rows 0,5 --json", Purpose: `two rows of a tensor as {"rows":[[...],[...]]}`},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			i := &inspectFlags{}
			i.model.addModel(f)
			f.Group("What to show")
			f.Toggle(&i.tensors, "tensors", "list the tensors")
			f.Text(&i.tensor, "tensor", "NAME", "print dequantized values of this tensor")
			f.Text(&i.rows, "rows", "LIST", "with --tensor: the rows, such as 0,5; a row is the innermost dimension, and the other dimensions are flattened")
			f.Group("Output")
			f.Toggle(&i.json, "json", "print one JSON object; NaN and infinities in a tensor become null")
			return i.run
		},
	}
}

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	model   modelFlags
	tensors bool   // list all of them
	tensor  string // or print rows of this one
	rows    string
	json    bool
}

func (i *inspectFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	if err := i.model.takeArgument(args); err != nil {
		return err
	}
	rows, err := i.check()
	if err != nil {
		return err
	}
	path, options, err := i.model.source()
	if err != nil {
		return err
	}
	inspection, err := llmrun.Inspect(path, options)
	if err != nil {
		return err
	}
	defer inspection.Close()
	switch {
	case i.tensor != "":
		return i.showRows(s, inspection, rows)
	case i.json:
		return s.Out.WriteJSON(newInspectReport(inspection, i.tensors))
	case i.tensors:
		showTensors(s, inspection.Tensors())
	default:
		showModel(s, inspection)
	}
	return nil
}

// check refuses flags that contradict each other, and returns the rows of --rows.
func (i *inspectFlags) check() ([]int, error) {
	switch {
	case i.tensor == "" && i.rows != "":
		return nil, cli.Usagef("--rows needs --tensor")
	case i.tensor == "":
		return nil, nil
	case i.tensors:
		return nil, cli.Usagef("--tensors lists all tensors and --tensor shows one: give one of them")
	case i.rows == "":
		return nil, cli.Usagef("--tensor needs --rows, such as --rows 0,5")
	}
	var rows []int
	for field := range strings.SplitSeq(i.rows, ",") {
		row, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || row < 0 {
			return nil, cli.Usagef("--rows: must be row numbers such as 0,5, not %q", i.rows)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// showRows prints rows of one tensor as numbers.
func (i *inspectFlags) showRows(s *cli.Streams, inspection *llmrun.Inspection, rows []int) error {
	values, err := inspection.Rows(i.tensor, rows)
	if err != nil {
		return fmt.Errorf("--tensor %s --rows %s: %w", i.tensor, i.rows, err)
	}
	if i.json {
		return s.Out.WriteRows("{", "rows", values)
	}
	w := bufio.NewWriter(s.Out)
	for k, row := range values {
		fmt.Fprintf(w, "row %d:", rows[k])
		for _, x := range row {
			fmt.Fprintf(w, " %g", x)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// tokensPerK is the number of tokens in "1K tokens" of the KV cache.
const tokensPerK = 1024

// An inspectReport is the JSON object of --json.
type inspectReport struct {
	llmrun.Info
	KVBytesPer1K int64               `json:"kv_bytes_per_1k_tokens"`
	Tensors      []llmrun.TensorInfo `json:"tensors,omitempty"`
}

// newInspectReport returns the description, with the tensors, of which there may be thousands,
// only on request.
func newInspectReport(inspection *llmrun.Inspection, withTensors bool) inspectReport {
	report := inspectReport{Info: inspection.Info(), KVBytesPer1K: inspection.KVBytes(tokensPerK)}
	if withTensors {
		report.Tensors = inspection.Tensors()
	}
	return report
}

// showModel prints the table for a person.
func showModel(s *cli.Streams, inspection *llmrun.Inspection) {
	info := inspection.Info()
	line := func(label, format string, args ...any) {
		fmt.Fprintf(s.Out, "%-12s %s\n", label, cli.VisibleLine(fmt.Sprintf(format, args...)))
	}
	if info.Name != "" {
		line("name", "%s", info.Name)
	}
	line("family", "%s (%s)", info.Family, info.Format)
	line("parameters", "%s", cli.FormatCount(info.Parameters))
	line("weights", "%s: %s", cli.FormatBytes(info.WeightBytes), tensorTypes(info.TensorTypes))
	inner := ""
	if info.FFN > 0 { // models may have experts in all layers
		inner = fmt.Sprintf(", feed-forward %d", info.FFN)
	}
	line("layers", "%d of width %d%s", info.Layers, info.Dim, inner)
	line("attention", "%s", attention(info))
	if info.Experts > 0 {
		line("experts", "%d, of which %d are active per token", info.Experts, info.ExpertsUsed)
	}
	line("tokenizer", "%s, %d tokens", cmp.Or(info.Tokenizer, "none"), info.Vocab)
	line("template", "%s", template(info))
	line("context", "%d tokens", info.MaxContext)
	line("KV cache", "%s per 1K tokens, %s for the whole context",
		cli.FormatBytes(inspection.KVBytes(tokensPerK)), cli.FormatBytes(inspection.KVBytes(info.MaxContext)))
}

// attention describes the shape of the attention.
func attention(info llmrun.Info) string {
	text := fmt.Sprintf("%d heads of width %d, %d key/value heads", info.Heads, info.HeadDim, info.KVHeads)
	if info.SlidingWindow > 0 {
		text += fmt.Sprintf(", sliding window of %d tokens", info.SlidingWindow)
	}
	return text
}

// template describes the source of the chat template.
func template(info llmrun.Info) string {
	if info.HasChatTemplate {
		return "the model's own (see llmrun render)"
	}
	return "none: run continues the text, chat uses a simple one"
}

// tensorTypes lists the number of tensors of each type, the most frequent type first.
func tensorTypes(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(parts, ", ")
}

// showTensors prints the list of tensors as a table.
func showTensors(s *cli.Streams, tensors []llmrun.TensorInfo) {
	width := 0
	for _, t := range tensors {
		width = max(width, len(t.Name))
	}
	for _, t := range tensors {
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", "×"), "[]")
		name := cli.VisibleLine(t.Name)
		fmt.Fprintf(s.Out, "%-*s  %-8s %-20s %s\n", width, name, t.Type, shape, cli.FormatBytes(t.Bytes))
	}
}
