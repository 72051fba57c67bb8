package jinja_test

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/text/jinja"
)

func ExampleTemplate_Render() {
	t, err := jinja.Parse(`{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt, err := t.Render(jinja.Input{
		Messages:            []any{jinja.Message{Role: "user", Content: " Hi "}},
		AddGenerationPrompt: true,
		BOS:                 "<s>",
	})
	fmt.Println(prompt, err)
	// Output:
	// <s>[user] Hi
	// [assistant] <nil>
}

func ExampleParse_unsupported() {
	_, err := jinja.Parse("{{ bos_token }}\n{% include 'other.jinja' %}")
	fmt.Println(errors.Is(err, jinja.ErrUnsupported))
	fmt.Println(err)
	// Output:
	// true
	// unsupported template construct: line 2: {% include %}: a chat template must be one file
}
