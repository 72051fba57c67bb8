// Command notesapp shows how an app for notes uses llmrun: it opens a vault, follows its changes, searches, answers
// questions with their sources, and releases memory when it is told to.
//
//	go run ./examples/notesapp VAULT [MODEL]
//
// Each line of standard input is a command: "find TEXT", "ask TEXT", "trim" or "quit". Without a model, ask
// prints the passages that a model would read.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/notes"
)

// lookEvery is the time between two looks at the vault, and answerTokens are the most tokens of an answer.
const lookEvery, answerTokens = 5 * time.Second, 200

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, time.Tick(lookEvery)); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "notesapp:", err)
		os.Exit(1)
	}
}

// app is the state of the program.
type app struct {
	vault  *notes.Vault
	engine *llmrun.Engine // nil: no model
	out    io.Writer
}

// run opens the vault and the model, and serves commands until the input ends.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer, ticks <-chan time.Time) (err error) {
	a := &app{out: out}
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: notesapp VAULT [MODEL]")
	}
	if len(args) == 2 {
		if a.engine, err = llmrun.OpenContext(ctx, args[1], llmrun.Options{}); err != nil {
			return err
		}
		defer a.engine.Close()
	}
	if a.vault, err = notes.Open(args[0], a.engine); err != nil {
		return err
	}
	defer a.vault.Close()
	return a.serve(ctx, in, ticks)
}

// serve runs the commands of the input, and looks at the vault at each tick. Notes that have not changed are not read.
func (a *app) serve(ctx context.Context, in io.Reader, ticks <-chan time.Time) error {
	lines := make(chan string)
	go func() { // ends with the input, or with the program
		defer close(lines)
		for input := bufio.NewScanner(in); input.Scan(); {
			lines <- input.Text()
		}
	}()
	for err := a.update(ctx); ; {
		if err != nil {
			fmt.Fprintln(a.out, "error:", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
			err = a.update(ctx)
		case line, more := <-lines:
			verb, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !more || verb == "quit" {
				return nil
			}
			err = a.do(ctx, verb, text)
		}
	}
}

// do runs one command.
func (a *app) do(ctx context.Context, verb, text string) error {
	switch verb {
	case "find":
		hits, err := a.vault.Search(ctx, text, notes.SearchOptions{Most: 5})
		for _, hit := range hits {
			fmt.Fprintf(a.out, "%s: %s\n", hit.File, strings.Join(strings.Fields(hit.Text), " "))
		}
		return err
	case "ask":
		return a.ask(ctx, text)
	case "trim": // what can be read again: a phone tells an app in the background to do so
		freed, weights := a.vault.Held(), int64(0)
		err := a.vault.Trim()
		if err == nil && a.engine != nil {
			weights, err = a.engine.Trim(ctx, llmrun.TrimLow)
		}
		fmt.Fprintf(a.out, "released %d KiB\n", (freed+weights)>>10)
		return err
	}
	return fmt.Errorf("there is no command %q: find, ask, trim or quit", verb)
}

// update brings the index up to date and says what has changed.
func (a *app) update(ctx context.Context) error {
	done, err := a.vault.Update(ctx)
	if err == nil && done.Computed+done.Removed > 0 {
		fmt.Fprintf(a.out, "%d notes, %d new or changed, %d removed\n", done.Notes, done.Computed, done.Removed)
	}
	return err
}

// ask answers a question and names the notes that the answer comes from.
func (a *app) ask(ctx context.Context, text string) error {
	q, err := a.vault.Ask(ctx, text, notes.AskOptions{})
	if err != nil {
		return err
	}
	if a.engine == nil {
		fmt.Fprintln(a.out, q.Prompt())
		return nil
	}
	session, err := a.engine.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if err := q.FitSession(a.engine, session, answerTokens); err != nil {
		return err
	}
	answer := ""
	for piece, err := range session.Chat(ctx, q.Prompt(), llmrun.GenerateOptions{MaxTokens: answerTokens}) {
		if err != nil {
			return err
		}
		answer += piece.Text
	}
	fmt.Fprintf(a.out, "%s\nSources: %s\n", strings.TrimSpace(answer), strings.Join(q.Sources(answer), ", "))
	return nil
}
