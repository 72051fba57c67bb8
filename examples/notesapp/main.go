// Command notesapp shows how an app for notes uses llmrun: it opens a vault, follows its changes, searches, answers
// questions with their sources, and releases memory when it is told to.
//
//	go run ./examples/notesapp VAULT [MODEL]
//
// Each line of standard input is a command: "find TEXT", "ask TEXT", "trim", "update" or "quit". Without a model, ask
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
	"sync"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/notes"
)

// lookEvery is the time between two looks at the vault.
const lookEvery = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, ticker.C); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "notesapp:", err)
		os.Exit(1)
	}
}

// run opens the vault and the model, and serves commands until the input ends.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer, ticks <-chan time.Time) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: notesapp VAULT [MODEL]")
	}
	a := &app{out: out}
	if len(args) == 2 {
		engine, err := llmrun.OpenContext(ctx, args[1], llmrun.Options{})
		if err != nil {
			return err
		}
		defer engine.Close()
		a.engine = engine
	}
	vault, err := notes.Open(args[0], a.engine)
	if err != nil {
		return err
	}
	defer vault.Close()
	a.vault = vault
	return a.serve(ctx, in, ticks)
}

// app is the state of the program. mu keeps lines of output apart.
type app struct {
	vault  *notes.Vault
	engine *llmrun.Engine // nil: no model
	mu     sync.Mutex
	out    io.Writer
}

func (a *app) printf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, format, args...)
}

// serve updates the index at each tick, and runs the commands of the input.
func (a *app) serve(ctx context.Context, in io.Reader, ticks <-chan time.Time) error {
	if err := a.update(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(ctx, ticks) })
	defer watching.Wait()
	defer cancel()
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		verb, text, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if verb == "quit" {
			return nil
		}
		if err := a.do(ctx, verb, text); err != nil {
			a.printf("error: %v\n", err)
		}
	}
	return lines.Err()
}

// watch looks at the vault at each tick. Notes that have not changed are not read.
func (a *app) watch(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if err := a.update(ctx); err != nil && ctx.Err() == nil {
				a.printf("error: %v\n", err)
			}
		}
	}
}

// do runs one command.
func (a *app) do(ctx context.Context, verb, text string) error {
	switch verb {
	case "find":
		hits, err := a.vault.Search(ctx, text, notes.SearchOptions{Most: 5})
		for _, hit := range hits {
			a.printf("%s: %s\n", hit.File, strings.Join(strings.Fields(hit.Text), " "))
		}
		return err
	case "ask":
		return a.ask(ctx, text)
	case "update":
		return a.update(ctx)
	case "trim":
		return a.trim(ctx)
	}
	return fmt.Errorf("there is no command %q: find, ask, update, trim or quit", verb)
}

// update brings the index up to date and says what has changed.
func (a *app) update(ctx context.Context) error {
	done, err := a.vault.Update(ctx)
	if err == nil && done.Computed+done.Removed > 0 {
		a.printf("%d notes, %d new or changed, %d removed\n", done.Notes, done.Computed, done.Removed)
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
		a.printf("%s\n", q.Prompt())
		return nil
	}
	session, err := a.engine.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	var answer strings.Builder
	for piece, err := range session.Chat(ctx, q.Prompt(), llmrun.GenerateOptions{MaxTokens: 200}) {
		if err != nil {
			return err
		}
		answer.WriteString(piece.Text)
	}
	a.printf("%s\nSources: %s\n", strings.TrimSpace(answer.String()), strings.Join(q.Sources(answer.String()), ", "))
	return nil
}

// trim releases the memory that can be read again: a phone tells an app in the background to do so.
func (a *app) trim(ctx context.Context) error {
	before := a.vault.Held()
	if err := a.vault.Trim(); err != nil {
		return err
	}
	freed := before
	if a.engine != nil {
		weights, err := a.engine.Trim(ctx, llmrun.TrimLow)
		if err != nil {
			return err
		}
		freed += weights
	}
	a.printf("released %d KiB\n", freed>>10)
	return nil
}
