package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// operation is what the document says about one method of one path.
type operation struct {
	name       string
	open       bool // needs no API key
	parameters []field
	bodies     map[string]*jsonschema.Schema // by media type; nil where no body belongs
	needsBody  bool
	answers    map[int]answer
}

// answer is what the document says about one status of an operation.
type answer struct {
	headers []field
	bodies  map[string]*jsonschema.Schema // by media type; empty where there is no body
	codes   []string                      // of a problem, in the document's order; nil for anything else
}

// field is a parameter or a header.
type field struct {
	name, in string // in is "path", "query" or "header"
	required bool
	integer  bool
	schema   *jsonschema.Schema
}

func (c compilation) operation(name, at string, described *openapi3.Operation) (*operation, error) {
	o := &operation{name: name, answers: map[int]answer{}}
	// No list at all means the document's own, which asks for a key.
	o.open = described.Security != nil && len(*described.Security) == 0
	for i, p := range described.Parameters {
		schema, err := c.schema(place(p.Ref, at+"/parameters/"+strconv.Itoa(i)) + "/schema")
		if err != nil {
			return nil, err
		}
		o.parameters = append(o.parameters, field{
			name: p.Value.Name, in: p.Value.In, required: p.Value.Required,
			integer: p.Value.Schema.Value.Type.Is("integer"), schema: schema,
		})
	}
	if body := described.RequestBody; body != nil {
		var err error
		if o.bodies, err = c.bodies(place(body.Ref, at+"/requestBody"), body.Value.Content); err != nil {
			return nil, err
		}
		o.needsBody = body.Value.Required
	}
	for text, response := range described.Responses.Map() {
		status, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: status %q is no number", name, text)
		}
		if o.answers[status], err = c.answer(place(response.Ref, at+"/responses/"+text), response.Value); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (c compilation) answer(at string, described *openapi3.Response) (answer, error) {
	var a answer
	for name, header := range described.Headers {
		schema, err := c.schema(place(header.Ref, at+"/headers/"+escape(name)) + "/schema")
		if err != nil {
			return answer{}, err
		}
		a.headers = append(a.headers, field{
			name: name, in: "header", required: header.Value.Required,
			integer: header.Value.Schema.Value.Type.Is("integer"), schema: schema,
		})
	}
	// A map has no order; complaints should have one.
	slices.SortFunc(a.headers, func(x, y field) int { return cmp.Compare(x.name, y.name) })

	var err error
	if a.bodies, err = c.bodies(at, described.Content); err != nil {
		return answer{}, err
	}
	if problem := described.Content[problemType]; problem != nil {
		a.codes = codesOf(problem.Schema)
	}
	return a, nil
}

func (c compilation) bodies(at string, content openapi3.Content) (map[string]*jsonschema.Schema, error) {
	bodies := map[string]*jsonschema.Schema{}
	for mediaType := range content {
		schema, err := c.schema(at + "/content/" + escape(mediaType) + "/schema")
		if err != nil {
			return nil, err
		}
		bodies[mediaType] = schema
	}
	return bodies, nil
}

// codesOf finds the codes that a problem's schema allows: the shortest list, as a response narrows the general one.
func codesOf(ref *openapi3.SchemaRef) []string {
	var codes []string
	consider := func(found []string) {
		if len(found) > 0 && (codes == nil || len(found) < len(codes)) {
			codes = found
		}
	}
	if code := ref.Value.Properties["code"]; code != nil {
		var found []string
		for _, value := range code.Value.Enum {
			found = append(found, fmt.Sprint(value))
		}
		consider(found)
	}
	for _, part := range ref.Value.AllOf {
		consider(codesOf(part))
	}
	return codes
}
