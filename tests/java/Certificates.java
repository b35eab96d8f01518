/*
 * Turns the keys of a PKCS12 store, made by keytool, into PEM files: NAME.key.pem with the private key and its certificate behind it,
 * NAME.crt.pem with the certificate alone. Arguments: the store, its password, the directory to write to.
 */

import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Collections;

public class Certificates {
    public static void main(String[] arguments) throws Exception {
        char[] password = arguments[1].toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (FileInputStream in = new FileInputStream(arguments[0])) {
            store.load(in, password);
        }
        Path directory = Path.of(arguments[2]);
        for (String name : Collections.list(store.aliases())) {
            String certificate = pem("CERTIFICATE", store.getCertificate(name).getEncoded());
            String key = pem("PRIVATE KEY", store.getKey(name, password).getEncoded());
            Files.writeString(directory.resolve(name + ".crt.pem"), certificate);
            Files.writeString(directory.resolve(name + ".key.pem"), key + certificate);
        }
    }

    private static String pem(String what, byte[] content) {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
        return "-----BEGIN " + what + "-----\n" + body + "\n-----END " + what + "-----\n";
    }
}
