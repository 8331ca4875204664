// Package seal signs certificates and opens signed ones. Its promise: what Open returns is what the key's owner signed,
// byte for byte.
package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	svr "github.com/in-toto/attestation/go/predicates/svr/v01"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/check"
)

const (
	// PredicateType is that of a statement with a Certificate.
	PredicateType = "https://github.com/seatrial/seatrial/certificate/v1"
	// summaryType is that of a Simple Verification Result: in-toto/attestation, spec/predicates/svr.md.
	summaryType = "https://in-toto.io/attestation/svr/v0.1"
	verifierID  = "https://github.com/seatrial/seatrial"
	payloadType = "application/vnd.in-toto+json"
)

// Sign returns the signed statement with the certificate: a DSSE envelope around an in-toto statement, as JSON.
func Sign(c certificate.Certificate, key *Key) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate: %w", err)
	}
	return sign(c, PredicateType, text, key)
}

// SignSummary returns a signed Simple Verification Result with the promises that are PASS, for policy engines that do
// not know a Certificate.
func SignSummary(c certificate.Certificate, key *Key) ([]byte, error) {
	result := &svr.SimpleVerificationResult{
		Verifier: &svr.SimpleVerificationResult_Verifier{Id: verifierID}, TimeCreated: timestamppb.New(c.Issued),
	}
	for _, p := range c.Promises {
		if p.Verdict == check.Pass {
			result.Properties = append(result.Properties, "SEATRIAL_"+p.Check)
		}
	}
	text, err := protojson.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encode the verification result: %w", err)
	}
	return sign(c, summaryType, text, key)
}

// sign makes a statement about the cluster and signs it.
func sign(c certificate.Certificate, kind string, predicate []byte, key *Key) ([]byte, error) {
	s := &intoto.Statement{
		Type: intoto.StatementTypeUri, PredicateType: kind, Predicate: &structpb.Struct{},
		Subject: []*intoto.ResourceDescriptor{{
			Name: "cluster", Digest: map[string]string{"sha256": certificate.Subject(c.Cluster)},
		}},
	}
	if err := protojson.Unmarshal(predicate, s.Predicate); err != nil {
		return nil, fmt.Errorf("make a statement: %w", err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("make a statement: %w", err)
	}
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a statement: %w", err)
	}
	var body bytes.Buffer // Its white space would differ from build to build.
	if err := json.Compact(&body, text); err != nil {
		return nil, fmt.Errorf("encode a statement: %w", err)
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	envelope, err := signer.SignPayload(context.Background(), payloadType, body.Bytes())
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return encode(envelope)
}

// encode is the only form of an envelope that Open takes, so that no byte of a certificate can be changed unseen.
func encode(e *dsse.Envelope) ([]byte, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the envelope: %w", err)
	}
	return append(text, '\n'), nil
}

// Open returns the certificate of which the key's owner signed each byte. What it says is not checked.
func Open(data []byte, key *Key) (certificate.Certificate, error) {
	c, err := open(data, key)
	if err != nil {
		return certificate.Certificate{}, fmt.Errorf("open the certificate: %w", err)
	}
	return c, nil
}

func open(data []byte, key *Key) (certificate.Certificate, error) {
	var c certificate.Certificate
	body, err := payload(data, key)
	if err != nil {
		return c, err
	}
	var s intoto.Statement
	if err := protojson.Unmarshal(body, &s); err != nil {
		return c, fmt.Errorf("it is no in-toto statement: %w", err)
	}
	if err := s.Validate(); err != nil {
		return c, fmt.Errorf("it is no in-toto statement: %w", err)
	}
	if s.GetPredicateType() != PredicateType {
		return c, fmt.Errorf("its predicate is %q, and must be %q", s.GetPredicateType(), PredicateType)
	}
	predicate, err := s.GetPredicate().MarshalJSON()
	if err != nil {
		return c, err
	}
	in := json.NewDecoder(bytes.NewReader(predicate))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return c, fmt.Errorf("a later version of Seatrial made it, or another program: %w", err)
	}
	digest := map[string]string{"sha256": certificate.Subject(c.Cluster)}
	about := &intoto.ResourceDescriptor{Name: "cluster", Digest: digest}
	if len(s.GetSubject()) != 1 || !proto.Equal(s.GetSubject()[0], about) {
		return c, errors.New("its subject is not the cluster that it describes")
	}
	return c, nil
}

// payload returns what an envelope holds, if the key signed it.
func payload(data []byte, key *Key) ([]byte, error) {
	var e dsse.Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("it is no DSSE envelope: %w", err)
	}
	if again, err := encode(&e); err != nil || !bytes.Equal(again, data) {
		return nil, errors.Join(errors.New("it was changed, or written by another program"), err)
	}
	if len(e.Signatures) != 1 || e.Signatures[0].KeyID != key.id {
		return nil, fmt.Errorf("it is not signed by the key %s alone", key.id)
	}
	for _, text := range []string{e.Payload, e.Signatures[0].Sig} {
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
			return nil, errors.New("it was changed: its base64 is not the usual form")
		}
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return nil, err
	}
	_, body, err := verifier.VerifyAndDecode(context.Background(), &e)
	if err != nil {
		return nil, fmt.Errorf("the signature is not that of key %s: %w", key.id, err)
	}
	return body, nil
}
