package archtest

import (
	"go/ast"
	"path"
	"strconv"
	"testing"
)

// TestLibraryExportsItsOwnTypes checks that exported declarations of the root package contain no
// types of other packages of this module, so that users of the library see one set of types.
func TestLibraryExportsItsOwnTypes(t *testing.T) {
	seen := 0
	for _, file := range goFiles(t) {
		if file.pkg != "." || file.test {
			continue
		}
		ours := ourImports(file.syntax)
		for _, decl := range file.syntax.Decls {
			for _, typ := range exportedTypes(decl) {
				seen++
				ast.Inspect(typ, func(n ast.Node) bool {
					if s, ok := n.(*ast.StructType); ok {
						checkFieldTypes(t, &file, s, ours)
						return false
					}
					if name := lowerType(n, ours); name != "" {
						t.Errorf("%s: the exported API names %s", file.set.Position(n.Pos()), name)
					}
					return true
				})
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d exported declarations found: the walk is broken", seen)
	}
}

// ourImports returns the local names of this module's packages in a file.
func ourImports(file *ast.File) map[string]bool {
	ours := map[string]bool{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // impossible: the parser has accepted the path
		}
		target, own := room(imported)
		if !own || target == "." {
			continue
		}
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		ours[name] = true
	}
	return ours
}

// exportedTypes returns the type expressions of what a declaration exports.
func exportedTypes(decl ast.Decl) (types []ast.Node) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(trimDot(receiver(d)))) {
			types = append(types, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					types = append(types, s.Type)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					types = append(types, s.Type)
				}
			}
		}
	}
	return types
}

func trimDot(name string) string {
	if name == "" {
		return ""
	}
	return name[:len(name)-1]
}

// checkFieldTypes refuses exported and embedded fields of foreign types; unexported
// ones are private.
func checkFieldTypes(t *testing.T, file *sourceFile, s *ast.StructType, ours map[string]bool) {
	for _, field := range s.Fields.List {
		exported := len(field.Names) == 0
		for _, name := range field.Names {
			exported = exported || name.IsExported()
		}
		if !exported {
			continue
		}
		ast.Inspect(field.Type, func(n ast.Node) bool {
			if name := lowerType(n, ours); name != "" {
				t.Errorf("%s: an exported field has the type %s", file.set.Position(n.Pos()), name)
			}
			return true
		})
	}
}

// lowerType returns the name of a type of a lower package of this module, "" for other types.
func lowerType(n ast.Node, ours map[string]bool) string {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := selector.X.(*ast.Ident); ok && ours[pkg.Name] {
		return pkg.Name + "." + selector.Sel.Name
	}
	return ""
}
