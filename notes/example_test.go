package notes_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/llmrun/llmrun/notes"
)

// Example indexes a directory of notes, searches it, and makes the prompt of a question.
func Example() {
	dir, err := os.MkdirTemp("", "vault")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	note := "# The lease\nThe rent is due on the first day of each month."
	if err := os.WriteFile(filepath.Join(dir, "lease.md"), []byte(note), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	vault, err := notes.OpenWith(dir, nil, notes.Options{File: filepath.Join(dir, ".llmrun.index")})
	if err != nil {
		log.Fatal(err)
	}
	defer vault.Close()
	done, err := vault.Update(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Notes, "note,", done.Computed, "computed")

	hits, err := vault.Search(ctx, "When must I pay the rent?", notes.SearchOptions{Most: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hits[0].File, hits[0].Title)

	question, err := vault.Ask(ctx, "When must I pay the rent?", notes.AskOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(question.Prompt()) // for Session.Chat
	fmt.Println(question.Sources("On the first day of the month."))
	// Output:
	// 1 note, 1 computed
	// lease.md The lease
	// lease.md:
	// # The lease
	// The rent is due on the first day of each month.
	//
	// When must I pay the rent?
	// [lease.md]
}
