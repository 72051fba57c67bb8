package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// qualified is a name of Go code in a document: `pkg.Name` or `pkg.Type.Member`,
	// with or without arguments, or `Type.Member` of the root package.
	qualified = regexp.MustCompile("`([A-Za-z0-9]+)\\.([A-Za-z]\\w*)(?:\\.([A-Z]\\w*))?(?:\\([^`]*\\))?`")
	// namedTest is a test in a document.
	namedTest = regexp.MustCompile(`\b(Test[A-Z]\w+)`)
)

// TestDocumentedNamesExist fails when a document names Go code that does not exist.
func TestDocumentedNamesExist(t *testing.T) {
	packages, tests := map[string]map[string]bool{}, map[string]bool{}
	for _, file := range goFiles(t) {
		base := path.Base(file.pkg)
		if packages[base] == nil {
			packages[base] = map[string]bool{}
		}
		for name := range declarations(file.syntax) {
			packages[base][name] = true
			if file.test {
				tests[name] = true
			}
		}
		for name := range fields(file.syntax) {
			packages[base][name] = true
		}
	}
	for document, text := range documents(t) {
		for _, match := range qualified.FindAllStringSubmatch(sourceLink.ReplaceAllString(text, ""), -1) {
			if !namesCode(packages, match[1], match[2], match[3]) {
				t.Errorf("%s names %s, which no package declares", document, match[0])
			}
		}
		for _, match := range namedTest.FindAllStringSubmatch(text, -1) {
			if !anyPrefix(tests, match[1]) {
				t.Errorf("%s names %s, which no package has", document, match[1])
			}
		}
	}
}

// anyPrefix reports whether a name begins with prefix, as -run matches beginnings.
func anyPrefix(names map[string]bool, prefix string) bool {
	for name := range names {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// namesCode reports whether names are declared, or are not names of this module's
// code: a file such as tokenizer.json, or a package of another module.
func namesCode(packages map[string]map[string]bool, first, second, third string) bool {
	if first == "llmrun" {
		first = "."
	}
	if names, ok := packages[first]; ok && ast.IsExported(second) {
		return names[strings.TrimSuffix(second+"."+third, ".")]
	}
	if root := packages["."]; ast.IsExported(first) && root[first] && ast.IsExported(second) {
		return root[first+"."+second]
	}
	return true
}

// fields returns the fields of structs and the methods of interfaces that a file
// declares, as Type.Name.
func fields(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			for _, member := range members(spec) {
				names[spec.Name.Name+"."+member.Name] = true
			}
		}
		return true
	})
	return names
}
