#!/usr/bin/env bash
# The whole road on the sample corpus: prepare, train, evaluate, export, serve, translate. Then in
# short on sixteen photos: captions, and where each of their words looked.
set -euo pipefail
cd "$(dirname "$0")"
experiment=configs/demo.yaml
run=runs/demo
started=$SECONDS
summary=""

stage() {
    local title=$1 what=$2
    shift 2
    echo
    echo "== $title: $what"
    local since=$SECONDS
    "$@"
    summary+=$(printf '%-12s %4d s' "$title" $((SECONDS - since)))$'\n'
}

stop_server() {
    { kill "$server" && wait "$server"; } 2>/dev/null || true
}

start_server() {
    rm -f "$run/address.json"
    seqloom serve "$experiment" --engine embedded --port 0 --rest-api-port 0 \
        --address-file "$run/address.json" >"$run/server.log" 2>&1 &
    server=$!
    trap stop_server EXIT
    until [ -s "$run/address.json" ]; do
        kill -0 $server 2>/dev/null || { cat "$run/server.log"; exit 1; }
        sleep 0.2
    done
    cat "$run/address.json"
}

address() {
    python -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$run/address.json" "$1"
}

by_grpc() {
    head -n 5 "$run/scores/test.source.txt" >"$run/sentences.txt"
    seqloom translate --server "$(address grpc)" <"$run/sentences.txt" >"$run/translations.txt"
    paste "$run/sentences.txt" "$run/translations.txt" | sed 's/\t/\n    /'
}

by_rest() {
    seqloom translate --rest --server "$(address rest)" <"$run/sentences.txt" >"$run/translations.rest.txt"
    cmp "$run/translations.txt" "$run/translations.rest.txt" && echo "REST gives the same five lines."
    python - "http://$(address rest)/v1/models/translation:predict" "$run/sentences.txt" <<'PYTHON'
import json, sys, urllib.request
sentence = open(sys.argv[2], encoding="utf-8").readline().strip()
body = json.dumps({"instances": [sentence]}, ensure_ascii=False)
print(f"POST {sys.argv[1]}\n{body}")
print(urllib.request.urlopen(sys.argv[1], body.encode()).read().decode())
PYTHON
}

captions_by_grpc() {
    seqloom caption --server "$(address grpc)" --save-attention "$run/attention" \
        "$photos/mirrored/chelsea.png" "$photos/mirrored/coffee.png" "$photos/mirrored/rocket.jpg" |
        tee "$run/captions.txt"
}

rm -rf "$run"
stage prepare "clean and tokenise the Chinese-English sample by Beam; records, vocabularies and manifest in $run/data" \
    seqloom prepare "$experiment"
stage train "an LSTM encoder-decoder with attention; checkpoints in $run/train, TensorBoard logs in $run/logs" \
    seqloom train "$experiment"
stage evaluate "translate the test split by beam search and score it; scores in $run/scores" \
    seqloom evaluate "$experiment"
stage export "a SavedModel, text in and text out, in $run/export" \
    seqloom export "$experiment"
stage serve "the embedded twin of TF Serving on free ports of this machine; its log is $run/server.log" \
    start_server
stage grpc "five test sentences by gRPC; the translations are in $run/translations.txt" by_grpc
stage rest "the same by REST, and one raw request" by_rest
stop_server

experiment=configs/pictures.yaml
run=runs/pictures
photos=runs/pictures-corpus
rm -rf "$run" "$photos"
stage photos "sixteen photos of scikit-image and scikit-learn with four captions each, in $photos" \
    python data/build_picture_corpus.py "$photos"
stage captioner "prepare, train, evaluate on the photos' mirror images, and export; all in $run" \
    seqloom run "$experiment"
stage serve "the captioner; its log is $run/server.log" start_server
stage captions "three mirrored photos by gRPC; where each word looked is in $run/attention" \
    captions_by_grpc

echo
echo "== Done. Seconds by stage:"
printf '%s' "$summary"
printf '%-12s %4d s\n' all $((SECONDS - started))
echo "See the curves and attention pictures:  .venv/bin/seqloom monitor configs/demo.yaml"
