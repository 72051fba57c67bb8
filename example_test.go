package llmrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// The examples use the demo model, by its path in the repository.

func Example() {
	engine, err := llmrun.Open("cmd/llmrun/bundled/model.pack", llmrun.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	session, err := engine.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	options := llmrun.GenerateOptions{MaxTokens: 40, Stop: []string{"\n"}}
	for piece, err := range session.Generate(context.Background(), "Once upon a time", options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	fmt.Println("ended by:", session.Stats().StopReason)
	// Output:
	// , there was a curious girl named Olive. Olive wanted to see the whole world.
	// ended by: stop
}

// A session keeps the conversation. Each turn prefills only new tokens.
func ExampleSession_Chat() {
	engine, session := openDemo()
	defer engine.Close()

	note := "Team meeting\n\nDate: 3 May 2024\n\nWe decided to paint the door green.\n\n"
	for _, question := range []string{note + "What is the date of the note?", "Thank you!"} {
		for piece, err := range session.Chat(context.Background(), question, llmrun.GenerateOptions{MaxTokens: 60}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(piece.Text)
		}
		stats := session.Stats()
		fmt.Printf("\n(%d tokens, %d of them known)\n", stats.PromptTokens, stats.ReusedTokens)
	}
	// Output:
	// The date of the note is 3 May 2024.
	// (45 tokens, 0 of them known)
	// You are welcome!
	// (75 tokens, 60 of them known)
}

// A seed makes sampling reproducible.
func ExampleGenerateOptions() {
	engine, session := openDemo()
	defer engine.Close()

	seed := uint64(7)
	options := llmrun.GenerateOptions{
		MaxTokens: 12,
		Sampling:  llmrun.Sampling{Temperature: 0.9, TopP: 0.95, Seed: &seed},
	}
	for range 2 {
		if err := session.Reset(); err != nil {
			log.Fatal(err)
		}
		var text strings.Builder
		for piece, err := range session.Generate(context.Background(), "The little girl", options) {
			if err != nil {
				log.Fatal(err)
			}
			text.WriteString(piece.Text)
		}
		fmt.Printf("%q\n", text.String())
	}
	// Output:
	// " is pink. My stamps are in the attic."
	// " is pink. My stamps are in the attic."
}

// Cancelling the context ends a generation; the session remains usable.
func ExampleSession_Generate_cancel() {
	engine, session := openDemo()
	defer engine.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	count := 0
	for piece, err := range session.Generate(ctx, "Once upon a time", llmrun.GenerateOptions{}) {
		if errors.Is(err, context.Canceled) {
			fmt.Println("\nstopped:", session.Stats().StopReason)
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
		if count++; count == 5 {
			cancel()
		}
	}
	for piece, err := range session.Generate(context.Background(), "", llmrun.GenerateOptions{MaxTokens: 5}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	// Output:
	// , there was a curious
	// stopped: cancelled
	//  girl named Olive. Olive
}

// A server sends each piece as a line of JSON. The text of a piece is empty if the token ends
// inside a character, or if it may be the beginning of a stop string.
func ExamplePiece() {
	engine, session := openDemo()
	defer engine.Close()

	out := json.NewEncoder(os.Stdout)
	options := llmrun.GenerateOptions{MaxTokens: 6, Stop: []string{"there was nothing"}}
	for piece, err := range session.Generate(context.Background(), "Once upon a time", options) {
		if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(map[string]any{"id": piece.ID, "text": piece.Text}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// {"id":15,"text":","}
	// {"id":443,"text":" "}
	// {"id":300,"text":""}
	// {"id":262,"text":"there was a"}
	// {"id":1943,"text":" curious"}
	// {"id":751,"text":" girl"}
}

func ExampleTokenizer() {
	tokenizer, err := llmrun.OpenTokenizer("cmd/llmrun/bundled/model.pack", llmrun.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"Hello, world!", "<|im_end|>"} {
		plain, err := tokenizer.Encode(text, llmrun.EncodeOptions{})
		if err != nil {
			log.Fatal(err)
		}
		special, err := tokenizer.Encode(text, llmrun.EncodeOptions{ParseSpecial: true})
		if err != nil {
			log.Fatal(err)
		}
		back, err := tokenizer.Decode(plain)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plain, special, back)
	}
	// Output:
	// [4972 15 950 4] [4972 15 950 4] Hello, world!
	// [31 95 321 66 524 95 33] [2] <|im_end|>
}

func ExampleEngine_Perplexity() {
	engine, _ := openDemo()
	defer engine.Close()

	for _, text := range []string{
		"Once upon a time there was a little girl.",
		"Girl little a was there time a upon once.",
	} {
		ids, err := engine.Tokenizer().Encode(text, llmrun.EncodeOptions{})
		if err != nil {
			log.Fatal(err)
		}
		result, err := engine.Perplexity(context.Background(), ids, llmrun.PerplexityOptions{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.1f nats a token\n", result.MeanNLL)
	}
	// Output:
	// 1.5 nats a token
	// 9.4 nats a token
}

func ExampleEngine_Logits() {
	engine, _ := openDemo()
	defer engine.Close()

	ids, err := engine.Tokenizer().Encode("Once upon a", llmrun.EncodeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := engine.Logits(context.Background(), ids, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := 0
	for id, v := range rows[0] {
		if v > rows[0][best] {
			best = id
		}
	}
	piece, _ := engine.Tokenizer().Piece(int32(best))
	fmt.Println(piece)
	// Output:
	// Ġtime
}

// Inspect reads only headers, so it is fast for models of any size.
func ExampleInspect() {
	model, err := llmrun.Inspect("model.pack", llmrun.Options{FS: os.DirFS("cmd/llmrun/bundled")})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	info := model.Info()
	fmt.Printf("%s, %.1fM parameters, %d layers\n", info.Family, float64(info.Parameters)/1e6, info.Layers)
	fmt.Printf("%d MiB of keys and values for 4096 tokens\n", model.KVBytes(4096)>>20)
	rows, err := model.Rows("output_norm.weight", []int{0})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows[0][:3])
	// Output:
	// llama, 14.9M parameters, 8 layers
	// 32 MiB of keys and values for 4096 tokens
	// [2.09375 2.03125 2.140625]
}

func ExampleRenderTemplate() {
	const source = `{% for m in messages %}[{{ m.role }}] {{ m.content }}
{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}`
	text, err := llmrun.RenderTemplate(source, llmrun.TemplateOptions{
		Messages: []byte(`[{"role": "user", "content": "Why is the sky blue?"}]`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output:
	// [user] Why is the sky blue?
	// [assistant]
}

// openDemo opens the demo model and an empty session.
func openDemo() (*llmrun.Engine, *llmrun.Session) {
	engine, err := llmrun.Open("cmd/llmrun/bundled/model.pack", llmrun.Options{})
	if err != nil {
		log.Fatal(err)
	}
	session, err := engine.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	return engine, session
}

// Adapters with names are loaded once, and each session chooses among them. Sessions with different adapters
// share passes over the weights.
func ExampleSession_UseAdapters() {
	dir, err := os.MkdirTemp("", "adapter")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := hubmodel.WriteAdapter(dir, 4); err != nil { // a directory as peft writes it
		log.Fatal(err)
	}
	engine, err := llmrun.Open("cmd/llmrun/bundled/model.pack", llmrun.Options{Adapters: []string{"style=" + dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	session, err := engine.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	for _, adapters := range [][]string{{"style"}, {"style:0.5"}, {}} {
		if err := session.UseAdapters(adapters...); err != nil {
			log.Fatal(err)
		}
		for _, err := range session.Generate(context.Background(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: 4}) {
			if err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(session.Adapters(), "of", engine.Adapters())
	}
	fmt.Println(session.UseAdapters("facts"))
	// Output:
	// [style] of [style]
	// [style:0.5] of [style]
	// [] of [style]
	// no adapter has this name: facts; there are style
}
