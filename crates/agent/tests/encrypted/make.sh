#!/usr/bin/env bash
# Makes the files of this folder anew, with the programs age, age-keygen (1.3.2) and sops (3.13.3) from PATH. All content is of
# these tests; the identities open nothing else.
set -euo pipefail
cd "$(dirname "$0")"
rm -f -- *.age *.agekey *.enc.* licence.bin
age-keygen -o project.agekey 2>/dev/null
age-keygen -o other.agekey 2>/dev/null
to=$(age-keygen -y project.agekey)
other=$(age-keygen -y other.agekey)
age -r "$to" -o token.txt.age token.txt
age -r "$other" -r "$to" -a -o token.armoured.age token.txt
head -c 131172 /dev/zero | tr '\0' a | age -r "$to" -o long.age
: | age -r "$to" -o empty.age
# A password is asked for at a terminal only.
script -qec "age -p -o scrypt.age token.txt" /dev/null < <(sleep 1; echo; sleep 2) > /dev/null
age -r "$to" -o keys.env.age keys.env
export SOPS_AGE_RECIPIENTS=$to
sops encrypt --encrypted-regex '^(data|stringData)$' secret.yaml > secret.enc.yaml
sops encrypt values.yaml > values.enc.yaml
rules=$(mktemp --suffix=.yaml)
printf 'creation_rules: [{age: %s, mac_only_encrypted: true, encrypted_suffix: _secret}]\n' "$to" > "$rules"
sops --config "$rules" encrypt only.yaml > only.enc.yaml
rm "$rules"
sops encrypt values.json > values.enc.json
sops encrypt keys.env > keys.enc.env
sops encrypt --input-type binary --output-type json token.txt > licence.bin
sops encrypt --age "$other,$to" values.yaml > two.enc.yaml
sops encrypt --age "$other" values.yaml > other.enc.yaml
