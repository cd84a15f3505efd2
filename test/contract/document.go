package contract

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI 3.1 document, ready to hold exchanges against. Its schemas are compiled once: a test may send
// thousands of requests.
type Document struct {
	router     routers.Router
	operations map[string]*operation // by method and path, such as "POST /payments"

	// elsewhere is what a path or method that is not in the document may answer, from the components of these names.
	elsewhere *operation
}

// anywhere are the component responses that need no operation.
func anywhere() map[int]string {
	return map[int]string{404: "NotFound", 405: "MethodNotAllowed", 500: "InternalError", 503: "ShuttingDown"}
}

// Load reads a document and compiles its schemas.
func Load(text []byte) (*Document, error) {
	spec, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("load document: %w", err)
	}
	if spec.Components == nil || spec.Paths == nil {
		return nil, errors.New("document has no components or no paths")
	}
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, fmt.Errorf("route document: %w", err)
	}
	c, err := newCompilation(spec)
	if err != nil {
		return nil, err
	}
	d := &Document{router: router, operations: map[string]*operation{}}
	for path, item := range spec.Paths.Map() {
		for method, description := range item.Operations() {
			name := method + " " + path
			at := "/paths/" + escape(path) + "/" + strings.ToLower(method)
			if d.operations[name], err = c.operation(name, at, description); err != nil {
				return nil, err
			}
		}
	}
	d.elsewhere = &operation{name: Elsewhere, answers: map[int]answer{}}
	for status, component := range anywhere() {
		described := spec.Components.Responses[component]
		if described == nil {
			return nil, fmt.Errorf("document has no response %s", component)
		}
		if d.elsewhere.answers[status], err = c.answer("/components/responses/"+component,
			described.Value); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// compilation turns places of the document into compiled schemas. The whole document is one resource, so that each
// reference resolves as it stands.
type compilation struct{ compiler *jsonschema.Compiler }

const resource = "openapi.json"

func newCompilation(spec *openapi3.T) (compilation, error) {
	text, err := spec.MarshalJSON()
	if err != nil {
		return compilation{}, fmt.Errorf("write document as JSON: %w", err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return compilation{}, fmt.Errorf("read document as JSON: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(resource, tree); err != nil {
		return compilation{}, fmt.Errorf("add document: %w", err)
	}
	return compilation{compiler}, nil
}

// schema compiles what the JSON pointer names.
func (c compilation) schema(pointer string) (*jsonschema.Schema, error) {
	schema, err := c.compiler.Compile(resource + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile schema at %s: %w", pointer, err)
	}
	return schema, nil
}

// place is where something is written down: behind its reference, if it is one.
func place(ref, inline string) string {
	if ref != "" {
		return strings.TrimPrefix(ref, "#")
	}
	return inline
}

// escape makes a member's name a part of a JSON pointer (RFC 6901) in a URL's fragment.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}

// Elsewhere stands in a Row for every path and method that the document does not have.
const Elsewhere = "elsewhere"

// Row is one thing that the document promises: an operation, a status, and for a problem its code.
type Row struct {
	Operation string // such as "POST /payments", or Elsewhere
	Status    int
	Code      string // empty unless the answer is a problem
}

// Rows lists all rows of the document, in order.
func (d *Document) Rows() []Row {
	var rows []Row
	for _, o := range append(slices.Collect(maps.Values(d.operations)), d.elsewhere) {
		for status, described := range o.answers {
			if described.codes == nil {
				rows = append(rows, Row{Operation: o.name, Status: status})
			}
			for _, code := range described.codes {
				rows = append(rows, Row{Operation: o.name, Status: status, Code: code})
			}
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
}
