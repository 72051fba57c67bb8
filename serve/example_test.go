package serve_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/llmrun/llmrun/serve"
)

// A program mounts the server behind its own authentication.
func Example() {
	server, err := serve.New(serve.Options{
		Models: []serve.Model{{Name: "notes", Path: "../cmd/llmrun/bundled/model.pack"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	mux := http.NewServeMux()
	mux.Handle("/llm/", http.StripPrefix("/llm", server))
	signedIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie("user"); err != nil || cookie.Value != "ann" {
			http.Error(w, "please sign in", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})

	program := httptest.NewServer(signedIn)
	defer program.Close()
	for _, user := range []string{"nobody", "ann"} {
		request, err := http.NewRequest(http.MethodPost, program.URL+"/llm/v1/completions", strings.NewReader(`{"prompt":"Once upon a time","max_tokens":4,"temperature":0,"stream":true}`))
		if err != nil {
			log.Fatal(err)
		}
		request.AddCookie(&http.Cookie{Name: "user", Value: user})
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.StatusCode, strings.Count(string(text), "data: "), "events")
	}
	// Output:
	// 401 0 events
	// 200 6 events
}
