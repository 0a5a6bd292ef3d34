package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// File is one source file of the module.
type File struct {
	Path   string // below the module, slash-separated
	Pkg    string // its folder, "." for the module's own
	Test   bool
	Syntax *ast.File
	Set    *token.FileSet
}

// Load parses every Go file below dir, for all platforms. It leaves out what the go tool does: testdata, and folders whose
// name begins with a dot or an underscore.
func Load(dir string) ([]*File, error) {
	var files []*File
	set := token.NewFileSet()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != dir && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, &File{Path: rel, Pkg: path.Dir(rel), Test: strings.HasSuffix(name, "_test.go"), Syntax: syntax, Set: set})
		return nil
	})
	return files, err
}

// Generated reports a file that a tool wrote.
func (f *File) Generated() bool { return ast.IsGenerated(f.Syntax) }

// Imports lists the paths that the file imports.
func (f *File) Imports() []string {
	var out []string
	for _, s := range f.Syntax.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Blank lists the blank imports. Those of embed and unsafe are not among them: they stand for a directive of the compiler.
func (f *File) Blank() []string {
	var out []string
	for _, s := range f.Syntax.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil && s.Name != nil && s.Name.Name == "_" && p != "embed" && p != "unsafe" {
			out = append(out, p)
		}
	}
	return out
}

// HasInit reports an init function.
func (f *File) HasInit() bool {
	for _, d := range f.Syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			return true
		}
	}
	return false
}

// Calls reports whether the file names a function of an imported package, by whatever name it imports that.
func (f *File) Calls(pkg, function string) bool {
	local := ""
	for _, s := range f.Syntax.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil && p == pkg {
			local = path.Base(pkg)
			if s.Name != nil {
				local = s.Name.Name
			}
		}
	}
	found := false
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == function {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && local != "" {
				found = true
			}
		}
		return !found
	})
	return found
}

// plain are the methods whose name says all: those of the standard library's interfaces.
var plain = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "As": true, "Len": true, "Less": true,
	"Swap": true, "Read": true, "Write": true, "Close": true, "MarshalText": true, "UnmarshalText": true, "MarshalJSON": true,
	"UnmarshalJSON": true}

// Undocumented lists the exported identifiers without a comment. A comment on a group is one for all in it.
func (f *File) Undocumented() []string {
	var out []string
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && receiverExported(d) && !(d.Recv != nil && plain[d.Name.Name]) {
				out = append(out, d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Doc == nil {
				out = append(out, undocumentedSpecs(d)...)
			}
		}
	}
	return out
}

func undocumentedSpecs(d *ast.GenDecl) []string {
	var out []string
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
				out = append(out, s.Name.Name)
			}
		case *ast.ValueSpec:
			if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil {
				out = append(out, s.Names[0].Name)
			}
		}
	}
	return out
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// Goroutines counts the go statements.
func (f *File) Goroutines() int {
	n := 0
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if _, ok := node.(*ast.GoStmt); ok {
			n++
		}
		return true
	})
	return n
}
