package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/llmrun/llmrun"
)

// A model that does not fit is refused before its weights are read, with the budget that suffices.
func ExampleMinimumError() {
	options := llmrun.Options{Context: 1024, Memory: llmrun.MemoryOptions{RAM: 10 << 20}}
	engine, err := llmrun.Open("cmd/llmrun/bundled/model.pack", options)
	var refused *llmrun.MinimumError
	if errors.As(err, &refused) {
		fmt.Printf("%d MiB are too few for %d tokens\n", refused.Budget>>20, refused.Context)
		options.Memory.RAM = refused.Minimum
		engine, err = llmrun.Open("cmd/llmrun/bundled/model.pack", options)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	fmt.Println("opened for", engine.Info().Context, "tokens")
	// Output:
	// 10 MiB are too few for 1024 tokens
	// opened for 1024 tokens
}

// A program gives memory back when the system asks for it. On Android, onTrimMemory passes the level.
func ExampleEngine_Trim() {
	engine, session := openDemo()
	defer engine.Close()

	ctx := context.Background()
	for _, level := range []llmrun.TrimLevel{llmrun.AndroidTrimLevel(15), llmrun.TrimNone} {
		freed, err := engine.Trim(ctx, level)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: freed more than 1 MiB: %v\n", level, freed > 1<<20)
	}
	for piece, err := range session.Generate(ctx, "Once upon a time", llmrun.GenerateOptions{MaxTokens: 5}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	// Output:
	// critical: freed more than 1 MiB: true
	// none: freed more than 1 MiB: false
	// , there was a curious
}

// A smaller budget streams weights from flash; the answer stays the same. One that is too small changes nothing.
func ExampleEngine_SetBudget() {
	engine, session := openDemo()
	defer engine.Close()

	for _, ram := range []int64{llmrun.NoLimit, 80 << 20, 1 << 20} {
		err := engine.SetBudget(ram)
		if refused := (*llmrun.MinimumError)(nil); errors.As(err, &refused) {
			fmt.Println("refused:", refused.Minimum > ram)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := session.Reset(); err != nil {
			log.Fatal(err)
		}
		for piece, err := range session.Generate(context.Background(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: 5}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(piece.Text)
		}
		fmt.Println()
	}
	// Output:
	// , there was a curious
	// , there was a curious
	// refused: true
}

// A saved session continues in another process.
func ExampleSession_Save() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for _, question := range []string{"My name is Olive. Who are you?", "What is my name?"} {
		ask(dir, question) // as if each were a run of the program
	}
	sessions, err := llmrun.Sessions(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range sessions {
		if _, err := llmrun.RemoveSession(dir, s.Name); err != nil {
			log.Fatal(err)
		}
		fmt.Println("removed", s.Name)
	}
	// Output:
	// messages before: 0
	// messages before: 2
	// removed talk
}

// ask continues the session "talk" and saves it.
func ask(dir, question string) {
	engine, err := llmrun.Open("cmd/llmrun/bundled/model.pack", llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	session, err := engine.OpenSession("talk", llmrun.SessionOptions{RePrefill: true}) // a new one if there is none
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("messages before:", len(session.Messages()))
	for _, err := range session.Chat(context.Background(), question, llmrun.GenerateOptions{MaxTokens: 60}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := session.Save(""); err != nil {
		log.Fatal(err)
	}
}
